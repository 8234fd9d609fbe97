"""Namespaces of Linux: a worker sees only its own processes, read-only files, and no network."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from attnsuite.worker.sandbox import system
from attnsuite.worker.sandbox.limits import FILES_LIMIT, NAMES_LIMIT
from attnsuite.worker.sandbox.mechanism import Mechanism, Protection, Space, works

ROOT, PROCESSES = Path("/"), Path("/proc")
SHARED_MEMORY, TERMINALS = Path("/dev/shm"), Path("/dev/pts")
DRIVER = Path("/dev/nvidiactl")
"""NVIDIA's driver: CUDA raises error 304 in a process that is not in /proc (driver 580, on an H100)."""


def enter(namespaces: int) -> None:
    """Enter new namespaces, that of the user included, with the same user number.

    The process may have one thread only. A new PID namespace applies to its children. OSError if that is impossible.
    """
    user, group = os.geteuid(), os.getegid()
    system.function("unshare", system.NEW_USER | namespaces)
    itself = Path("/proc/self")
    (itself / "setgroups").write_text("deny")  # required before mapping groups without privileges
    (itself / "uid_map").write_text(f"{user} {user} 1")
    (itself / "gid_map").write_text(f"{group} {group} 1")


def show_own_processes() -> None:
    """Have /proc show only the processes of this namespace. OSError if that is impossible, as in many containers."""
    system.mount("proc", PROCESSES, "proc", system.NO_SETUID | system.NO_DEVICES)


def protect_system() -> None:
    """Make the system-wide parts of /proc read-only, which root may change even without capabilities."""
    for name in ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi"):
        part = PROCESSES / name
        if part.exists():
            system.mount(str(part), part, "", system.BIND)
            system.set_read_only(part)


def _probe_processes() -> None:
    """Raise OSError if the driver exists, and /proc would not show processes in a namespace of their own."""
    if DRIVER.exists() and not works(find_itself):
        raise OSError("/proc does not show the processes of a new namespace")


def find_itself() -> None:
    """Mount /proc in a PID namespace. OSError if that is impossible."""
    enter(system.NEW_PROCESSES | system.NEW_MOUNTS)
    system.mount("none", ROOT, "", system.RECURSIVE | system.PRIVATE)
    if not works(show_own_processes):
        raise OSError("/proc is not mounted")


def _protect_files(space: Space) -> None:
    writable = [Path(folder) for folder in space.writable]
    system.mount("none", ROOT, "", system.RECURSIVE | system.PRIVATE)
    for folder in writable:
        system.mount(str(folder), folder, "", system.BIND)
    system.set_read_only(ROOT)
    system.set_read_only(PROCESSES, False)  # processes write their own settings there
    protect_system()
    for folder in writable:
        system.set_read_only(folder, False)
    size = min(FILES_LIMIT, space.memory or FILES_LIMIT)
    _mount_in_memory(Path(space.folder), size)
    with suppress(OSError):  # it does not exist
        _mount_in_memory(SHARED_MEMORY, size)
    with suppress(OSError):  # devices are writable in spite of read-only mounts
        system.mount(
            "tmpfs", TERMINALS, "tmpfs", system.NO_SETUID | system.NO_DEVICES | system.READ_ONLY, "size=4k,mode=0700"
        )


def _mount_in_memory(folder: Path, size: int) -> None:
    options = f"size={size},nr_inodes={NAMES_LIMIT},mode=0700"
    system.mount("tmpfs", folder, "tmpfs", system.NO_SETUID | system.NO_DEVICES, options)


PID_NAMESPACE = Mechanism(
    "PID namespace",
    frozenset({Protection.PROCESSES, Protection.READING, Protection.SIGNALS}),
    namespaces=system.NEW_PROCESSES
    | system.NEW_IPC,  # System V shared memory outlives processes, but not its namespace
    probe=_probe_processes,
)
MOUNT_NAMESPACE = Mechanism(
    "mount namespace", frozenset({Protection.FILES}), namespaces=system.NEW_MOUNTS, around=_protect_files
)
NETWORK_NAMESPACE = Mechanism("network namespace", frozenset({Protection.NETWORK}), namespaces=system.NEW_NETWORK)
