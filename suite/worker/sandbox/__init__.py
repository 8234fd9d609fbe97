"""The sandbox of a worker, built from the isolation mechanisms of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Collection, Sequence
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

from attnsuite.model import UsageError
from attnsuite.model.temporary import left_behind, remove
from attnsuite.worker.sandbox import landlock, seccomp
from attnsuite.worker.sandbox.limits import LIMITS, NO_CAPABILITIES
from attnsuite.worker.sandbox.mechanism import Mechanism, Protection, Space, works
from attnsuite.worker.sandbox.namespaces import MOUNT_NAMESPACE, NETWORK_NAMESPACE, PID_NAMESPACE, enter
from attnsuite.worker.sandbox.processes import DESCENT

__all__ = ["MECHANISMS", "Mechanism", "Protection", "Space"]

MECHANISMS: Sequence[Mechanism] = (
    *(PID_NAMESPACE, MOUNT_NAMESPACE, NETWORK_NAMESPACE, DESCENT),
    *(LIMITS, NO_CAPABILITIES, landlock.LANDLOCK, seccomp.SECCOMP),
)
"""All mechanisms in the order of their application; the filter of system calls must be the last."""


@cache
def available() -> tuple[str, ...]:
    """The names of the mechanisms of this machine, each tried in a child process."""
    with TemporaryDirectory() as folder:
        return tuple(mechanism.name for mechanism in MECHANISMS if works(partial(_try, mechanism, Space(folder))))


def begin_detection() -> None:
    """Begin in the background to determine the result of `detected`."""
    _detection(os.getpid())


@cache
def _detection(process: int) -> subprocess.Popen[bytes]:
    """The program that detects mechanisms for the process with this PID; a fork needs its own."""
    path = os.pathsep.join(filter(None, (str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "attnsuite.worker.sandbox", "--names"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,  # after Ctrl-C the suite may still need the result
    )


_waiting = threading.Lock()
_detected: tuple[str, ...] | None = None


def detected() -> tuple[str, ...]:
    """The same as `available`, from another interpreter, because a process with threads should not fork.

    Raises UsageError if that fails, so that no submission runs without a sandbox for that reason.
    """
    global _detected
    with _waiting:
        if _detected is None:
            detection = _detection(os.getpid())
            output, errors = detection.communicate()
            if detection.returncode or not output:  # the status is unknown if this process ignores SIGCHLD
                last = errors.decode(errors="replace").strip().rpartition("\n")[2]
                reason = last or f"it ended with status {detection.returncode}"
                raise UsageError(f"cannot determine which sandbox this machine has: {reason}")
            _detected = tuple(json.loads(output))
        return _detected


def _try(mechanism: Mechanism, space: Space) -> None:
    mechanism.probe()
    if mechanism.before:
        mechanism.before(space)
    if mechanism.namespaces:
        enter(mechanism.namespaces)
    for step in (mechanism.around, mechanism.within):
        if step:
            step(space)


def chosen(names: Collection[str]) -> list[Mechanism]:
    """The mechanisms of these names, in order, without one that another makes redundant."""
    redundant = DESCENT.name if PID_NAMESPACE.name in names else ""
    return [mechanism for mechanism in MECHANISMS if mechanism.name in names and mechanism.name != redundant]


def take_down(space: Space) -> None:
    """Remove the folder of a worker after its processes have ended."""
    remove(Path(space.folder))


def take_down_leftovers() -> None:
    """Remove the folders of killed processes of the suite."""
    for folder in left_behind():
        take_down(Space(str(folder)))


sweep = cache(take_down_leftovers)
"""The same, once in a process."""


def protects(protection: Protection, names: Collection[str]) -> bool:
    """Whether one of these mechanisms gives this protection."""
    return bool(_by_protection(names)[protection])


def in_short(names: Collection[str]) -> str:
    """The number of active protections, and the missing ones, in a short line."""
    by = _by_protection(names)
    missing = [protection for protection, mechanisms in by.items() if not mechanisms]
    if not missing:
        return f"sandbox: all {len(by)} protections active"
    active = f"{len(by) - len(missing)} of {len(by)} protections active"
    return f"sandbox: {active}; unavailable on this machine: {', '.join(missing)}"


def in_words(names: Collection[str]) -> str:
    """The protections with their mechanisms, and the missing ones, in one line."""
    by = _by_protection(names)
    present = "; ".join(f"{mechanism} ({', '.join(mechanisms)})" for mechanism, mechanisms in by.items() if mechanisms)
    missing = ", ".join(mechanism for mechanism, mechanisms in by.items() if not mechanisms)
    return f"sandbox: {present or 'none'}" + (f"; unavailable on this machine: {missing}" if missing else "")


def _by_protection(names: Collection[str]) -> dict[Protection, list[str]]:
    active = chosen(names)
    by = {
        protection: [mechanism.name for mechanism in active if protection in mechanism.protects]
        for protection in Protection
    }
    if PID_NAMESPACE in active and seccomp.SECCOMP in active:
        by[Protection.SIGNALS].remove(seccomp.SECCOMP.name)  # then its filter allows signals
    return by
