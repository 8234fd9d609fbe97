"""Where there is no PID namespace: who is left of a worker is found by descent, and ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from attnsuite.worker.sandbox.system import SUBREAPER, prctl
from attnsuite.worker.sandbox.wall import Keeps, Room, Wall

LIMIT = 5.0
"""Seconds for which is looked for processes that start others as they are ended."""


def children(process: int) -> list[int]:
    """The processes that it has started or taken over (Linux)."""
    found: list[int] = []
    for thread in _threads(process):
        with suppress(OSError):  # it has ended
            found += map(int, (thread / "children").read_text().split())
    return found


def below(process: int) -> Iterator[int]:
    """All that descend from it, the nearest first."""
    waiting = children(process)
    while waiting:
        each = waiting.pop(0)
        yield each
        waiting += children(each)


def signal_all(processes: Iterator[int], number: int) -> int:
    """Send a signal to each, and say how many got it."""
    reached = 0
    for each in processes:
        with suppress(OSError):  # it has ended
            os.kill(each, number)
            reached += 1
    return reached


def end_all_below(process: int) -> None:
    """End all that descend from this process, which they cannot escape: it takes over whoever loses its parent.

    They are stopped first, lest one starts another while it is being ended. Those of this process are reaped.
    """
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        signal_all(below(process), signal.SIGSTOP)
        signal_all(below(process), signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not children(process):
            return
        time.sleep(0.001)


def _threads(process: int) -> list[Path]:
    with suppress(OSError):
        return list(Path(f"/proc/{process}/task").iterdir())
    return []


def _around(room: Room) -> None:
    prctl(SUBREAPER, 1)


def _probe() -> None:
    Path(f"/proc/self/task/{os.getpid()}/children").read_text()


WALL = Wall("descent", frozenset({Keeps.ENDS}), around=_around, probe=_probe)
