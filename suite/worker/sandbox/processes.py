"""Process trees: finding descendants, ending them together, and ending them with their parent."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from attnsuite.worker.sandbox.mechanism import Mechanism, Protection, Space
from attnsuite.worker.sandbox.system import SUBREAPER, prctl

LIMIT = 5.0
"""Seconds after which `end_descendants` gives up on processes that keep starting others."""


def children(process: int) -> list[int]:
    """The child processes, adopted ones included (Linux)."""
    numbers: list[int] = []
    with suppress(OSError):  # it has ended
        for thread in Path(f"/proc/{process}/task").iterdir():
            with suppress(OSError):
                numbers += map(int, (thread / "children").read_text().split())
    return numbers


def descendants(process: int) -> Iterator[int]:
    """All descendants, the nearest first."""
    waiting = children(process)
    while waiting:
        nearest = waiting.pop(0)
        yield nearest
        waiting += children(nearest)


def signal_all(processes: Iterable[int], number: int) -> None:
    """Send a signal to each process that has not ended."""
    for process in processes:
        with suppress(OSError):
            os.kill(process, number)


def end_descendants(process: int) -> None:
    """End all descendants; none escapes if this process adopts orphans.

    They are stopped first, so that none starts another meanwhile. Children of this process are reaped.
    """
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        signal_all(descendants(process), signal.SIGSTOP)
        signal_all(descendants(process), signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not children(process):
            return
        time.sleep(0.001)


def die_with_the_parent(life: int) -> None:
    """Have the system kill this process and its group when the parent ends (Linux).

    A suspended process could not notice that itself. The parent keeps one end of the pipe `life` open; when it closes,
    the system signals the owner of the other end, which for pipes may be a whole group.
    """
    os.set_inheritable(life, False)
    with suppress(OSError, AttributeError):
        fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(life, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
    with suppress(AttributeError):
        poll = select.poll()
        poll.register(life, 0)  # hang-ups are always reported
        if poll.poll(0):  # the parent ended earlier, without a signal
            os.killpg(os.getpgrp(), signal.SIGKILL)


def ending(status: int) -> str:
    """The end of a process in words, from its exit status: `exit status 3`, `SIGSEGV`, `signal 35`."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:  # a real-time signal
        return f"signal {-status}"


def _around(space: Space) -> None:
    prctl(SUBREAPER, 1)


def _probe() -> None:
    Path(f"/proc/self/task/{os.getpid()}/children").read_text()


DESCENT = Mechanism("descent", frozenset({Protection.PROCESSES}), around=_around, probe=_probe)
"""Needed without a PID namespace: the supervisor adopts orphans and ends them."""
