"""Landlock: the kernel's own sandbox, which needs no privileges (Linux 5.13 and later).

Source: https://docs.kernel.org/userspace-api/landlock.html
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from functools import cache
from pathlib import Path

from attnsuite.worker.sandbox.mechanism import Mechanism, Protection, Space
from attnsuite.worker.sandbox.system import (
    LANDLOCK_ADD,
    LANDLOCK_CREATE,
    LANDLOCK_RESTRICT,
    NO_NEW_PRIVILEGES,
    kernel,
    prctl,
)

WRITE, READ, TRUNCATE = 1 << 1, 1 << 2, 1 << 14
CHANGES = WRITE | sum(1 << bit for bit in range(4, 13))
"""Access rights: writing to files, and making or removing files, folders and devices. Reading is a right of its own."""
REFER = 1 << 13
"""Moving files between folders, since version 2. Truncation has a right since version 3, which then covers all ways
to change a file's content."""
TCP = SCOPES = 3
"""Binding and connecting, since version 4; scoping of abstract UNIX sockets and signals, since version 6."""
DEVICES = ("null", "zero", "full", "random", "urandom", "shm", "dri", "kfd", "nvidia*", "nvidia-caps")
"""Readable and writable entries of /dev: volatile ones, and those that drivers of accelerators need. Data read from
others, such as a terminal, would be lost to other programs."""
ROOT, ALL_DEVICES = Path("/"), "dev"


class _Ruleset(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("files", "network", "scoped"))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


@cache
def version() -> int:
    """The kernel's version of Landlock. OSError if it has none."""
    return kernel(LANDLOCK_CREATE, None, 0, 1)


def _within(space: Space) -> None:
    changes = CHANGES | (REFER if version() >= 2 else 0) | (TRUNCATE if version() >= 3 else 0)
    ruleset = _Ruleset(changes | READ, TCP if version() >= 4 else 0, SCOPES if version() >= 6 else 0)
    size = ctypes.sizeof(ruleset) if version() >= 6 else 16 if version() >= 4 else 8
    rules = kernel(LANDLOCK_CREATE, ctypes.byref(ruleset), size, 0)
    try:
        for entry in ROOT.iterdir():
            if entry.name != ALL_DEVICES and not entry.is_symlink():  # a link may lead to /dev
                with suppress(OSError):  # an unreachable file server
                    _allow(rules, entry, READ)
        for path in (Path(space.folder), *map(Path, space.writable), *_devices()):
            _allow(rules, path, READ | (changes if path.is_dir() else changes & (WRITE | TRUNCATE)))
        prctl(NO_NEW_PRIVILEGES, 1)
        kernel(LANDLOCK_RESTRICT, rules, 0)
    finally:
        os.close(rules)


def _devices() -> list[Path]:
    """Devices, and the process's own entry in /proc, or all of /proc if system settings are read-only."""
    facts = Path("/proc/self" if os.access("/proc/sys/kernel/core_pattern", os.W_OK) else "/proc")
    return [facts, *(device for name in DEVICES for device in Path("/dev").glob(name))]


def _allow(rules: int, path: Path, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        kernel(LANDLOCK_ADD, rules, 1, ctypes.byref(_Beneath(rights, place)), 0)
    finally:
        os.close(place)


def _protects() -> frozenset[Protection]:
    """The protections: no reading of outside processes, and since version 6 no signals to them."""
    try:
        files, signals = {Protection.FILES} if version() >= 3 else (), {Protection.SIGNALS} if version() >= 6 else ()
        return frozenset({Protection.READING, *files, *signals})
    except OSError:
        return frozenset()


LANDLOCK = Mechanism("Landlock", _protects(), within=_within)
