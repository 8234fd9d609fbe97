"""A cgroup of its own (version 2), where one was delegated to us: limits for all processes together.

It is made beside that of the suite: below the nearest cgroup above the suite's in which we may make one and move
processes, and whose manager hands on memory and pids. That of others is never changed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from attnsuite.model.limits import KILL_LIMIT
from attnsuite.worker.sandbox.limits import PROCESSES_LIMIT
from attnsuite.worker.sandbox.wall import Keeps, Room, Wall

OWN = Path("/proc/self/cgroup")
MOUNTED = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
"""Where systems mount version 2: alone, or beside version 1."""
NEEDED = frozenset({"memory", "pids"})
PROCESSES, HANDED_ON = "cgroup.procs", "cgroup.subtree_control"


def places(own: Path = OWN, mounted: tuple[Path, ...] = MOUNTED) -> Iterator[Path]:
    """The cgroups below which one may be made, the nearest first: ours, and those above it."""
    lines = own.read_text().splitlines()
    name = next((line[3:] for line in lines if line.startswith("0::")), "")
    root = next((each for each in mounted if (each / PROCESSES).exists()), None)
    if not name or root is None or "/.." in name:
        return
    place = root / name.lstrip("/")
    for each in (place, *place.parents):
        if not each.is_relative_to(root):
            return
        with suppress(OSError):
            handed_on = set((each / HANDED_ON).read_text().split())
            if handed_on >= NEEDED and os.access(each, os.W_OK) and os.access(each / PROCESSES, os.W_OK):
                yield each


def move_in(place: Path, room: Room) -> None:
    """Make a cgroup for this room, with its limits, and move this process there. OSError where that cannot be."""
    made = place / room.folder.name
    made.mkdir()
    try:
        if room.memory:
            (made / "memory.max").write_text(str(room.memory))
        (made / "pids.max").write_text(str(PROCESSES_LIMIT))
        (made / PROCESSES).write_text("0")
    except OSError:
        made.rmdir()
        raise


def remove(room: Room) -> None:
    """Remove the cgroup of this room, and end whoever is left in it; without effect where there is none."""
    with suppress(OSError):
        for made in (place / room.folder.name for place in places()):
            until = time.monotonic() + KILL_LIMIT
            while made.is_dir() and not _removed(made) and time.monotonic() < until:
                (made / "cgroup.kill").write_text("1")
                time.sleep(0.001)


def _removed(made: Path) -> bool:
    with suppress(OSError):  # somebody is left
        made.rmdir()
    return not made.exists()


def _around(room: Room) -> None:
    for place in places():
        with suppress(OSError):
            move_in(place, room)
            return
    raise OSError("no cgroup was delegated to us")


def _probe() -> None:
    if next(places(), None) is None:
        raise OSError("no cgroup was delegated to us")


WALL = Wall("cgroup", frozenset({Keeps.TOGETHER}), around=_around, after=remove, probe=_probe)
