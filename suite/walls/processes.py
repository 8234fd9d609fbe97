"""A PID namespace: the system ends all that is in it with its first process, and nothing in it can name another."""

from __future__ import annotations

from pathlib import Path

from suite.walls.system import NEW_IPC, NEW_PROCESSES, NO_DEVICES, NO_SETUID, mount
from suite.walls.wall import Keeps, Wall

WALL = Wall(
    "PID namespace",
    frozenset({Keeps.ENDS, Keeps.READING, Keeps.SIGNALS}),
    namespaces=NEW_PROCESSES | NEW_IPC,  # shared memory of System V outlives processes, but not its namespace
)


def show_own_processes() -> None:
    """Have /proc show the processes of this namespace alone. OSError where that cannot be, as in many containers."""
    mount("proc", Path("/proc"), "proc", NO_SETUID | NO_DEVICES)
