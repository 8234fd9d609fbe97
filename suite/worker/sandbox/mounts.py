"""A mount namespace: everything is read-only in it but a folder in memory, which is gone with it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from attnsuite.worker.sandbox.limits import FILES_LIMIT, NAMES_LIMIT
from attnsuite.worker.sandbox.system import (
    BIND,
    NEW_MOUNTS,
    NO_DEVICES,
    NO_SETUID,
    PRIVATE,
    READ_ONLY,
    RECURSIVE,
    make_read_only,
    make_writable,
    mount,
)
from attnsuite.worker.sandbox.wall import Keeps, Room, Wall

ROOT = Path("/")
SHARED_MEMORY, TERMINALS, PROCESSES = Path("/dev/shm"), Path("/dev/pts"), Path("/proc")


def _around(room: Room) -> None:
    mount("none", ROOT, "", RECURSIVE | PRIVATE)
    for each in room.writable:
        mount(str(each), each, "", BIND)
    make_read_only(ROOT)
    make_writable(PROCESSES)  # a process writes there about itself
    protect_system()
    for each in room.writable:
        make_writable(each)
    most = min(FILES_LIMIT, room.memory or FILES_LIMIT)
    _in_memory(room.folder, most)
    with suppress(OSError):  # there is none
        _in_memory(SHARED_MEMORY, most)
    with suppress(OSError):  # a device is written to in spite of read-only mounts
        mount("tmpfs", TERMINALS, "tmpfs", NO_SETUID | NO_DEVICES | READ_ONLY, "size=4k,mode=0700")


def protect_system() -> None:
    """Make read-only what of /proc is about the whole system: root, too, may change it without capabilities."""
    for name in ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi"):
        each = PROCESSES / name
        if each.exists():
            mount(str(each), each, "", BIND)
            make_read_only(each)


def _in_memory(folder: Path, most: int) -> None:
    options = f"size={most},nr_inodes={NAMES_LIMIT},mode=0700"
    mount("tmpfs", folder, "tmpfs", NO_SETUID | NO_DEVICES, options)


WALL = Wall("mount namespace", frozenset({Keeps.FILES}), namespaces=NEW_MOUNTS, around=_around)
