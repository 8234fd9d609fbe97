"""Walls around a worker: what keeps somebody's code from what is not its own, as far as this machine has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Collection, Sequence
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

from attnsuite.model import UsageError
from attnsuite.model.temporary import left_behind, remove
from attnsuite.worker.sandbox import (
    capabilities,
    cgroups,
    descent,
    landlock,
    limits,
    mounts,
    network,
    processes,
    seccomp,
)
from attnsuite.worker.sandbox.user import enter
from attnsuite.worker.sandbox.wall import Keeps as Keeps
from attnsuite.worker.sandbox.wall import Room as Room
from attnsuite.worker.sandbox.wall import Wall as Wall
from attnsuite.worker.sandbox.wall import works

WALLS: Sequence[Wall] = (
    *(cgroups.WALL, processes.WALL, mounts.WALL, network.WALL, descent.WALL),
    *(limits.WALL, capabilities.WALL, landlock.WALL, seccomp.WALL),
)
"""All there are, in the order in which they are put up: a cgroup is made before files are read-only, and after the
filter of system calls nothing more can be."""


@cache
def available() -> tuple[str, ...]:
    """The names of the walls that this machine has: each was put up around a child process."""
    with TemporaryDirectory() as folder:
        room = Room(Path(folder))
        try:
            return tuple(each.name for each in WALLS if works(partial(_tried, each, room)))
        finally:
            _remove_what_walls_left(room)


def begin_to_look() -> None:
    """Begin in the background to find what `found_elsewhere` will say."""
    _looking(os.getpid())


@cache
def _looking(process: int) -> subprocess.Popen[str]:
    """What looks for walls, for this process: a copy of it, which has another number, has to have its own."""
    program = [sys.executable, "-P", "-m", "attnsuite.worker.sandbox", "--names"]
    path = os.pathsep.join(filter(None, (str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        program,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"},
        start_new_session=True,  # Ctrl-C is for the suite: it may still ask, to end well
    )


def found_elsewhere() -> tuple[str, ...]:
    """The same as `available`, found by another interpreter: a process with threads had better not fork itself.

    Raises UsageError where that cannot tell: somebody's code is not run without walls because of it.
    """
    with _one_asks:
        return _found()


_one_asks = threading.Lock()


@cache
def _found() -> tuple[str, ...]:
    looking = _looking(os.getpid())
    said, why = looking.communicate()
    if looking.returncode or not said:  # its status is not known where this process ignores SIGCHLD
        last = why.strip().rpartition("\n")[2] or f"it ended with status {looking.returncode}"
        raise UsageError(f"it cannot be found out which walls this machine has: {last}")
    return tuple(json.loads(said))


def _tried(wall: Wall, room: Room) -> None:
    wall.probe()
    if wall.before:
        wall.before(room)
    if wall.namespaces:
        enter(wall.namespaces)
    for put_up in (wall.around, wall.within):
        if put_up:
            put_up(room)


def named(names: Collection[str]) -> list[Wall]:
    """The walls of these names, in order; none that another one makes needless."""
    needless = descent.WALL.name if processes.WALL.name in names else ""
    return [each for each in WALLS if each.name in names and each.name != needless]


def take_down(room: Room) -> None:
    """Remove a room whose processes have ended, and what its walls have left."""
    _remove_what_walls_left(room)
    remove(room.folder)


@cache
def sweep() -> None:
    """Take down, once in a process, what suites that were killed have left."""
    clear_up()


def clear_up() -> None:
    """Take down what processes of suites have left that were killed, or ended while they started another."""
    for folder in left_behind():
        take_down(Room(folder))


def _remove_what_walls_left(room: Room) -> None:
    for each in WALLS:
        if each.after:
            each.after(room)


def kept(what: Keeps, names: Collection[str]) -> bool:
    """Whether one of these walls keeps it."""
    return bool(_by(names)[what])


def in_short(names: Collection[str]) -> str:
    """How many kinds of walls stand, and what nothing keeps, in a short line."""
    by = _by(names)
    fallen = [keeps.what for keeps, found in by.items() if not found]
    if not fallen:
        return f"walls: all {len(by)} stand"
    return f"walls: {len(by) - len(fallen)} of {len(by)} stand; not kept on this machine: {', '.join(fallen)}"


def in_words(names: Collection[str]) -> str:
    """What the walls that stand keep, in one line, and what nothing keeps."""
    by = _by(names)
    stand = "; ".join(f"{keeps} ({', '.join(found)})" for keeps, found in by.items() if found)
    fall = "; ".join(keeps for keeps, found in by.items() if not found)
    return f"walls: {stand or 'none'}" + (f"; not so on this machine: {fall}" if fall else "")


def _by(names: Collection[str]) -> dict[Keeps, list[str]]:
    """The walls that keep each thing."""
    standing = named(names)
    by = {keeps: [each.name for each in standing if keeps in each.keeps] for keeps in Keeps}
    if processes.WALL in standing and seccomp.WALL in standing:
        by[Keeps.SIGNALS].remove(seccomp.WALL.name)  # it then leaves signals alone
    return by
