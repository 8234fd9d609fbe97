"""Limits of the system: bytes of memory, of a file, and processes. Each process has them for itself."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path

from attnsuite.worker.sandbox.wall import Keeps, Room, Wall

FILES_LIMIT = 1 << 31
"""Bytes that a file may have, and a folder in memory: more than a compiler's cache takes, less than memory."""
NAMES_LIMIT = 1 << 18
"""Files and folders that a folder in memory may have: each takes a kilobyte of it that no size counts."""
PROCESSES_LIMIT = 1 << 13
"""Processes and threads of a worker in namespaces of its own: some libraries' threads on hundreds of cores are fewer.
Outside, the system counts all of a user's, whoever started them."""


def memory_limit() -> int:
    """Bytes that somebody's code may take: half of what the machine has, so that there is some for the suite."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _before(room: Room) -> None:
    """Have the system end this process before others when memory runs out.

    Where CAP_SYS_RESOURCE says so, only that can take it back; else everybody can.
    """
    with suppress(OSError):  # not Linux, or /proc is read-only
        Path("/proc/self/oom_score_adj").write_text("1000")


def _within(room: Room) -> None:
    """Set the limits."""
    _limit(resource.RLIMIT_FSIZE, FILES_LIMIT)
    if room.memory:
        _limit(resource.RLIMIT_DATA, room.memory)
    if room.namespaced:
        _limit(resource.RLIMIT_NPROC, PROCESSES_LIMIT)


def _limit(which: int, most: int) -> None:
    _, hard = resource.getrlimit(which)
    lower = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (lower, lower))


WALL = Wall("limits of the system", frozenset({Keeps.SIZE}), before=_before, within=_within)
