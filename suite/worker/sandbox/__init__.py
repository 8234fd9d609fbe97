"""The sandbox of a worker: what keeps a submission from what is not its own, as far as this machine has it."""

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
"""All there are, in the order in which they are applied: after the filter of system calls nothing more can be."""


@cache
def available() -> tuple[str, ...]:
    """The names of the mechanisms that this machine has: each was applied to a child process."""
    with TemporaryDirectory() as folder:
        return tuple(mechanism.name for mechanism in MECHANISMS if works(partial(_try, mechanism, Space(folder))))


def begin_detection() -> None:
    """Begin in the background to determine what `detected` will return."""
    _detection(os.getpid())


@cache
def _detection(process: int) -> subprocess.Popen[bytes]:
    """The program that detects mechanisms, for this process: a fork of it, which has another number, needs its own."""
    path = os.pathsep.join(filter(None, (str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "attnsuite.worker.sandbox", "--names"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,  # Ctrl-C is for the suite, which may still need the answer to end well
    )


_waiting = threading.Lock()
_detected: tuple[str, ...] | None = None


def detected() -> tuple[str, ...]:
    """The same as `available`, from another interpreter: a process with threads had better not fork itself.

    Raises UsageError where that fails: no submission runs without a sandbox because of it.
    """
    global _detected
    with _waiting:
        if _detected is None:
            detection = _detection(os.getpid())
            output, errors = detection.communicate()
            if detection.returncode or not output:  # the status is unknown where this process ignores SIGCHLD
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
    """The mechanisms of these names, in order; none that another one makes needless."""
    needless = DESCENT.name if PID_NAMESPACE.name in names else ""
    return [mechanism for mechanism in MECHANISMS if mechanism.name in names and mechanism.name != needless]


def take_down(space: Space) -> None:
    """Remove the folder of a worker whose processes have ended."""
    remove(Path(space.folder))


def take_down_leftovers() -> None:
    """Take down what processes of suites have left that were killed, or ended while they started another."""
    for folder in left_behind():
        take_down(Space(str(folder)))


sweep = cache(take_down_leftovers)
"""The same, once in a process."""


def protects(protection: Protection, names: Collection[str]) -> bool:
    """Whether one of these mechanisms gives this protection."""
    return bool(_by_protection(names)[protection])


def in_short(names: Collection[str]) -> str:
    """How many kinds of protection there are, and those that are missing, in a short line."""
    by = _by_protection(names)
    missing = [protection for protection, mechanisms in by.items() if not mechanisms]
    if not missing:
        return f"sandbox: all {len(by)} protections active"
    active = f"{len(by) - len(missing)} of {len(by)} protections active"
    return f"sandbox: {active}; unavailable on this machine: {', '.join(missing)}"


def in_words(names: Collection[str]) -> str:
    """What is protected and by which mechanisms, in one line, and what nothing protects."""
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
        by[Protection.SIGNALS].remove(seccomp.SECCOMP.name)  # it then leaves signals alone
    return by
