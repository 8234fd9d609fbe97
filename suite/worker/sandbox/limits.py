"""Resource limits of each process (memory, files, processes), and the removal of root's capabilities."""

from __future__ import annotations

import ctypes
import os
import resource
from contextlib import suppress
from pathlib import Path

from attnsuite.worker.sandbox.mechanism import Mechanism, Protection, Space
from attnsuite.worker.sandbox.system import NO_NEW_PRIVILEGES, function, prctl

FILES_LIMIT = 1 << 31
"""Bytes of a file, and of a folder in memory, at most: more than a compiler's cache takes, less than memory."""
NAMES_LIMIT = 1 << 18
"""Files and folders in a folder in memory, at most: each takes a kilobyte that the size does not include."""
PROCESSES_LIMIT = 1 << 13
"""Processes and threads of a worker in namespaces of its own, at most: more than libraries start on hundreds of
cores. Outside, the system counts all of a user's together."""
CAPABILITIES_VERSION = 0x20080522
"""Version 3 of the structures that `capset` reads."""


def memory_limit() -> int:
    """Bytes that a submission may take: half of the machine's memory, which leaves some for the suite."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _end_first(space: Space) -> None:
    """Have the system kill this process before others when memory runs out.

    If a process with CAP_SYS_RESOURCE sets this, only such a process can undo it; else every process can.
    """
    with suppress(OSError):  # not Linux, or /proc is read-only
        Path("/proc/self/oom_score_adj").write_text("1000")


def _set_limits(space: Space) -> None:
    _limit(resource.RLIMIT_FSIZE, FILES_LIMIT)
    if space.memory:
        _limit(resource.RLIMIT_DATA, space.memory)
    if space.namespaced:
        _limit(resource.RLIMIT_NPROC, PROCESSES_LIMIT)


def _limit(which: int, limit: int) -> None:
    _, hard = resource.getrlimit(which)
    lower = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(which, (lower, lower))


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def _drop_capabilities(space: Space) -> None:
    """Drop all capabilities, and prevent programs from regaining them."""
    prctl(NO_NEW_PRIVILEGES, 1)
    none = (ctypes.c_uint32 * 6)()
    function("capset", ctypes.byref(_Header(CAPABILITIES_VERSION, 0)), ctypes.byref(none))


LIMITS = Mechanism("limits of the system", frozenset({Protection.SIZE}), before=_end_first, within=_set_limits)
NO_CAPABILITIES = Mechanism("no capabilities", frozenset(), within=_drop_capabilities)
"""Without them even root cannot read a process that still has them."""
