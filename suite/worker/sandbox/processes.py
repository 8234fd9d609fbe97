"""A PID namespace: the system ends all that is in it with its first process, and nothing in it can name another."""

from __future__ import annotations

from pathlib import Path

from attnsuite.worker.sandbox.system import (
    NEW_IPC,
    NEW_MOUNTS,
    NEW_PROCESSES,
    NO_DEVICES,
    NO_SETUID,
    PRIVATE,
    RECURSIVE,
    mount,
)
from attnsuite.worker.sandbox.user import enter
from attnsuite.worker.sandbox.wall import Keeps, Wall, works

DRIVER = Path("/dev/nvidiactl")
"""NVIDIA's driver: CUDA says error 304 in a process that does not find itself in /proc (driver 580, on an H100)."""


def show_own_processes() -> None:
    """Have /proc show the processes of this namespace alone. OSError where that cannot be, as in many containers."""
    mount("proc", Path("/proc"), "proc", NO_SETUID | NO_DEVICES)


def _probe() -> None:
    """Raise OSError where the driver is there, and processes in a namespace of their own would not be in /proc."""
    if DRIVER.exists() and not works(_find_itself):
        raise OSError("/proc does not show the processes of a new namespace")


def _find_itself() -> None:
    """Mount /proc in a PID namespace. OSError where that cannot be."""
    enter(NEW_PROCESSES | NEW_MOUNTS)
    mount("none", Path("/"), "", RECURSIVE | PRIVATE)
    if not works(show_own_processes):
        raise OSError("/proc is not mounted")


WALL = Wall(
    "PID namespace",
    frozenset({Keeps.ENDS, Keeps.READING, Keeps.SIGNALS}),
    namespaces=NEW_PROCESSES | NEW_IPC,  # shared memory of System V outlives processes, but not its namespace
    probe=_probe,
)
