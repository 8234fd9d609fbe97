"""Landlock: the kernel's own sandbox, which needs no privileges (Linux 5.13 and later).

Source: https://docs.kernel.org/userspace-api/landlock.html
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from functools import cache
from pathlib import Path

from attnsuite.worker.sandbox.system import (
    LANDLOCK_ADD,
    LANDLOCK_CREATE,
    LANDLOCK_RESTRICT,
    NO_NEW_PRIVILEGES,
    kernel,
    prctl,
)
from attnsuite.worker.sandbox.wall import Keeps, Room, Wall

WRITE, READ, TRUNCATE = 1 << 1, 1 << 2, 1 << 14
CHANGES = WRITE | sum(1 << bit for bit in range(4, 13))
"""Access rights: to write to files, and to make or remove files, folders and devices. To read a file is another."""
REFER = 1 << 13
"""To move files between folders; since version 2. Truncation is since version 3."""
TCP = 3
"""To bind and to connect; since version 4."""
SCOPES = 3
"""Abstract UNIX sockets and signals stay inside; since version 6."""
WHOLE = 3
"""The version that knows all ways to change a file's content."""
DEVICES = ("null", "zero", "full", "random", "urandom", "shm", "dri", "kfd", "nvidia*", "nvidia-caps")
"""What of /dev may be read and written to: nothing lasting, and what drivers of accelerators need. From another one, as
a terminal or a serial port, what is read is taken from somebody else."""
ROOT, ALL_DEVICES = Path("/"), "dev"


class _Ruleset(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("files", "network", "scoped"))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


@cache
def version() -> int:
    """The version that the kernel has. OSError where it has none."""
    return kernel(LANDLOCK_CREATE, None, 0, 1)


def _within(room: Room) -> None:
    rights = CHANGES | (REFER if version() >= 2 else 0) | (TRUNCATE if version() >= WHOLE else 0)
    ruleset = _Ruleset(rights | READ, TCP if version() >= 4 else 0, SCOPES if version() >= 6 else 0)
    size = ctypes.sizeof(ruleset) if version() >= 6 else 16 if version() >= 4 else 8
    rules = kernel(LANDLOCK_CREATE, ctypes.byref(ruleset), size, 0)
    try:
        for each in ROOT.iterdir():
            if each.name != ALL_DEVICES and not each.is_symlink():  # else it may lead there
                with suppress(OSError):  # a server of files that does not answer
                    _allow(rules, each, READ)
        for each in (room.folder, *room.writable, *_devices()):
            _allow(rules, each, READ | (rights if each.is_dir() else rights & (WRITE | TRUNCATE)))
        prctl(NO_NEW_PRIVILEGES, 1)
        kernel(LANDLOCK_RESTRICT, rules, 0)
    finally:
        os.close(rules)


def _devices() -> list[Path]:
    """The process's own facts, or where the system's cannot be changed all that are shown, and devices."""
    facts = Path("/proc/self" if os.access("/proc/sys/kernel/core_pattern", os.W_OK) else "/proc")
    return [facts, *(each for name in DEVICES for each in Path("/dev").glob(name))]


def _allow(rules: int, path: Path, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        kernel(LANDLOCK_ADD, rules, 1, ctypes.byref(_Beneath(rights, place)), 0)
    finally:
        os.close(place)


def _keeps() -> frozenset[Keeps]:
    """What it keeps: who is in it can read no process outside, and since version 6 signal none."""
    try:
        signals = {Keeps.SIGNALS} if version() >= 6 else set[Keeps]()
        return frozenset({Keeps.READING, *({Keeps.FILES} if version() >= WHOLE else ()), *signals})
    except OSError:
        return frozenset()


WALL = Wall("Landlock", _keeps(), within=_within)
