"""Cores that do not fall asleep while short calls are asked for one by one.

Between two such calls the process that asks and the one that answers wait for each other, so that their cores are
idle by turns. Waking an idle core takes from a few to a hundred microseconds, most on virtual machines, and differs
from time to time by more than a short call takes. So, where short calls have one thread, one process spins on each of
these cores, of the scheduling class that runs only where nothing else would (`SCHED_IDLE`): whoever wakes takes its
place at once.

Run as a script, this file is such a process; so it imports the standard library alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

MOST_CORES = 8
"""Cores that are kept awake at most. Two processes take turns; a few cores more let the system choose idle ones."""
LOOK_AFTER = 1 << 20
"""Turns of the loop, some 10 ms, after which a spinning process looks whether whoever started it is still there."""


@contextmanager
def awake(cores: Collection[int]) -> Iterator[None]:
    """Keep these cores awake, the first `MOST_CORES` of them, and run the calling thread on them.

    Where the system has no such class nothing is done: short calls are then said to be not bounded more often.
    """
    kept = list(dict.fromkeys(cores))[:MOST_CORES]
    if not kept or not hasattr(os, "SCHED_IDLE"):
        yield
        return
    before = os.sched_getaffinity(0)
    spinning: list[subprocess.Popen[bytes]] = []
    try:
        with suppress(OSError):  # no more processes may be started, or a core was taken away meanwhile
            for core in kept:
                spinning.append(_spinning(core))
            os.sched_setaffinity(0, kept)
        yield
    finally:
        for each in spinning:
            each.kill()
            each.wait()
        with suppress(OSError):
            os.sched_setaffinity(0, before)


def _spinning(core: int) -> subprocess.Popen[bytes]:
    isolated = [sys.executable, "-I", "-S", __file__, str(core), str(os.getpid())]
    return subprocess.Popen(isolated, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def spin(core: int, parent: int) -> None:
    """Spin on this core for as long as this process is the parent, where nothing else would run there."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    os.sched_setaffinity(0, {core})
    while os.getppid() == parent:
        for _ in range(LOOK_AFTER):
            pass


if __name__ == "__main__":
    spin(*map(int, sys.argv[1:]))
