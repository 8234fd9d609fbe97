"""What a wall is: how it is put up around a worker, what it keeps, and whether this machine has it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


class Keeps(StrEnum):
    """What a wall is good for, in whole words."""

    ENDS = "what it starts ends with it"
    READING = "the memory of other processes cannot be read"
    SIGNALS = "nor signalled"
    FILES = "files are read-only but for a folder of its own"
    NETWORK = "no network"
    SIZE = "memory and the size of files are limited"
    TOGETHER = "the memory and the number of all its processes together, too"

    @property
    def what(self) -> str:
        """What it keeps, in a word or two."""
        return _WHAT[self]


_WHAT = {
    Keeps.ENDS: "what it starts",
    Keeps.READING: "the memory of others",
    Keeps.SIGNALS: "signals",
    Keeps.FILES: "files",
    Keeps.NETWORK: "the network",
    Keeps.SIZE: "its memory",
    Keeps.TOGETHER: "the memory of all its processes together",
}


@dataclass(frozen=True)
class Room:
    """What a walled worker has for itself."""

    folder: Path
    """Its working directory and temporary folder."""
    writable: tuple[Path, ...] = ()
    """Folders that it may write to beside that: caches that the user named."""
    memory: int = 0
    """Bytes that each of its processes may take; 0 is no limit."""
    namespaced: bool = False
    """Whether it is in a PID namespace of its own."""


@dataclass(frozen=True)
class Wall:
    """One way to keep a worker from what is not its own. What is done raises OSError where that cannot be."""

    name: str
    keeps: frozenset[Keeps]
    namespaces: int = 0
    """The namespaces that it needs, as flags of `unshare`; these need a user namespace, too."""
    before: Callable[[Room], None] | None = None
    """Done first, with all privileges that the user has."""
    around: Callable[[Room], None] | None = None
    """Done once these namespaces are there, before the worker's process."""
    within: Callable[[Room], None] | None = None
    """Done by the worker's process, last of all."""
    after: Callable[[Room], None] | None = None
    """Done by the suite once the processes have ended: what is left of it is removed."""
    probe: Callable[[], None] = field(default=lambda: None)
    """Raises OSError where it is clear that the system does not have it."""


def works(attempt: Callable[[], None]) -> bool:
    """Whether this can be done, found by a child process that does it and ends."""
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            attempt()
            os._exit(0)
        os._exit(1)
    return os.waitpid(child, 0)[1] == 0
