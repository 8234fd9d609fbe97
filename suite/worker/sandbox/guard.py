"""The process between the suite and a walled worker: it puts up the walls, outlives the worker, and ends as it does."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from attnsuite.worker.sandbox import named
from attnsuite.worker.sandbox.descent import end_all_below
from attnsuite.worker.sandbox.life import die_with_the_parent
from attnsuite.worker.sandbox.mounts import protect_system
from attnsuite.worker.sandbox.processes import show_own_processes
from attnsuite.worker.sandbox.room import move_in
from attnsuite.worker.sandbox.system import DIE_WITH_PARENT, NEW_MOUNTS, NEW_PROCESSES, prctl
from attnsuite.worker.sandbox.user import enter
from attnsuite.worker.sandbox.wall import Room, Wall


def main(worker: str, channel: int, life: int, given: str) -> None:
    """In an interpreter of its own: put up the walls, then run this module. `given` is what `written` wrote."""
    die_with_the_parent(life)
    room, wanted = read(json.loads(given))
    stand = surround(room, wanted, life)
    import_module(worker).main(channel, life, stand)


def written(room: Room, wanted: Collection[str]) -> dict[str, object]:
    """The room, and the walls that are wanted, all of which this machine has, as data."""
    writable = [str(each) for each in room.writable]
    return {"folder": str(room.folder), "writable": writable, "memory": room.memory, "wanted": list(wanted)}


def read(given: dict[str, object]) -> tuple[Room, list[str]]:
    """The room and the walls that were written."""
    folder, writable, memory, wanted = (given[name] for name in ("folder", "writable", "memory", "wanted"))
    assert isinstance(writable, list)
    assert isinstance(memory, int)
    assert isinstance(wanted, list)
    return Room(Path(str(folder)), tuple(map(Path, writable)), memory), wanted


def surround(room: Room, wanted: Collection[str], life: int) -> tuple[str, ...]:
    """Go on as a worker behind the wanted walls, without those that are needless. The names of the others are returned.

    The process that calls this stays behind as the worker's guard, and ends as the worker ends. It keeps `life`, which
    kills it when the suite is gone, whatever the worker does with its own.
    """
    walls = named(wanted)
    namespaces = 0
    for each in walls:
        namespaces |= each.namespaces
        if each.before:
            each.before(room)
    if namespaces:
        enter(namespaces)
    for each in walls:
        if each.around:
            each.around(room)
    if namespaces & NEW_PROCESSES:
        _begin_processes(life, own_mounts=bool(namespaces & NEW_MOUNTS))
    else:
        _leave_to(os.fork(), life)
    _go_within(replace(room, namespaced=bool(namespaces & NEW_PROCESSES)), walls)
    return tuple(each.name for each in walls)


def _begin_processes(life: int, own_mounts: bool) -> None:
    """Start the first process of a PID namespace and, as its child, the worker, in which alone this returns.

    The first process cannot be the worker: signals that it sends itself have no effect, and orphans become its own.
    """
    told, tells = os.pipe()
    first = os.fork()
    if first:
        _stay_behind(told, life)
        _, status = os.waitpid(first, 0)
        said = os.read(told, 16)
        _end_as(int(said) if said else status)
    prctl(DIE_WITH_PARENT, signal.SIGKILL)
    if own_mounts:
        with suppress(OSError):  # a container that hides parts of /proc forbids a new one
            show_own_processes()
            protect_system()
    worker = os.fork()
    if worker:
        _stay_behind(tells)
        os.write(tells, str(_outlived(worker)).encode())
        os._exit(0)  # the system ends whoever else is in the namespace
    os.close(told)
    os.close(tells)


def _leave_to(worker: int, life: int) -> None:
    """Where this is the worker's parent, wait for it, end all that it has started, and end."""
    if worker:
        _stay_behind(life)
        status = _outlived(worker)
        end_all_below(os.getpid())
        _end_as(status)


def _stay_behind(*kept: int) -> None:
    """Close what a worker has: whoever waits for the end of its output or its channel waits for all that hold it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for each in range(3):
        os.dup2(nothing, each)
    below = 3
    for each in sorted(kept):
        os.closerange(below, each)
        below = each + 1
    os.closerange(below, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _outlived(worker: int) -> int:
    """Wait until the worker has ended, whoever else ends before, and return its status."""
    while True:
        ended, status = os.wait()
        if ended == worker:
            return status


def _end_as(status: int) -> NoReturn:
    """End with the same status, or by the same signal."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError):  # SIGKILL cannot be set
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _go_within(room: Room, walls: Collection[Wall]) -> None:
    with suppress(OSError):  # not Linux
        prctl(DIE_WITH_PARENT, signal.SIGKILL)
    move_in(room)
    for each in walls:
        if each.within:
            each.within(room)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
