"""A cgroup of its own (version 2), where one was delegated to us: limits for all processes together.

It is made next to that of the suite: below the nearest cgroup above the suite's in which we may make one and move
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
from attnsuite.worker.sandbox.mechanism import Mechanism, Protection, Space

OWN = Path("/proc/self/cgroup")
MOUNTED = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
"""Where systems mount version 2: alone, or next to version 1."""
NEEDED = frozenset({"memory", "pids"})
PROCESSES, HANDED_ON = "cgroup.procs", "cgroup.subtree_control"


def places(own: Path = OWN, mounted: tuple[Path, ...] = MOUNTED) -> Iterator[Path]:
    """The cgroups below which one may be made, the nearest first: ours, and those above it."""
    lines = own.read_text().splitlines()
    name = next((line[3:] for line in lines if line.startswith("0::")), "")
    root = next((folder for folder in mounted if (folder / PROCESSES).exists()), None)
    if not name or root is None or "/.." in name:
        return
    nearest = root / name.lstrip("/")
    for place in (nearest, *nearest.parents):
        if not place.is_relative_to(root):
            return
        with suppress(OSError):
            handed_on = set((place / HANDED_ON).read_text().split())
            if handed_on >= NEEDED and os.access(place, os.W_OK) and os.access(place / PROCESSES, os.W_OK):
                yield place


def enter(place: Path, space: Space) -> None:
    """Make a cgroup with the limits of this space, and move this process there. OSError where that cannot be."""
    cgroup = place / Path(space.folder).name
    cgroup.mkdir()
    try:
        if space.memory:
            (cgroup / "memory.max").write_text(str(space.memory))
        (cgroup / "pids.max").write_text(str(PROCESSES_LIMIT))
        (cgroup / PROCESSES).write_text("0")
    except OSError:
        cgroup.rmdir()
        raise


def _around(space: Space) -> None:
    for place in places():
        with suppress(OSError):
            enter(place, space)
            return
    raise OSError("no cgroup was delegated to us")


def _after(space: Space) -> None:
    """Remove the cgroup of this space, and end the processes that are left in it."""
    with suppress(OSError):
        for cgroup in (place / Path(space.folder).name for place in places()):
            until = time.monotonic() + KILL_LIMIT
            while cgroup.is_dir() and time.monotonic() < until:
                with suppress(OSError):  # a process is left
                    cgroup.rmdir()
                    break
                (cgroup / "cgroup.kill").write_text("1")
                time.sleep(0.001)


def _probe() -> None:
    if next(places(), None) is None:
        raise OSError("no cgroup was delegated to us")


CGROUP = Mechanism("cgroup", frozenset({Protection.TOTAL}), around=_around, after=_after, probe=_probe)
