"""What a mechanism of the sandbox is: how it is applied, what it protects, and whether this machine has it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

from msgspec import Struct


class Protection(StrEnum):
    """What a mechanism protects, or limits."""

    PROCESSES = "what it starts"
    READING = "the memory of others"
    SIGNALS = "signals"
    FILES = "files"
    NETWORK = "the network"
    SIZE = "its memory"


class Space(Struct, frozen=True):
    """What a sandboxed worker has for itself, and the mechanisms that keep it there."""

    folder: str
    """Its working directory and temporary folder."""
    mechanisms: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    """Further folders that it may write to: caches that the user named."""
    memory: int = 0
    """Bytes that each of its processes may take; 0 is no limit."""
    namespaced: bool = False
    """Whether it is in a PID namespace of its own."""


Step = Callable[[Space], None]


@dataclass(frozen=True)
class Mechanism:
    """One part of the sandbox. Its steps raise OSError where the machine does not have it."""

    name: str
    protects: frozenset[Protection]
    namespaces: int = 0
    """The namespaces that it needs, as flags of `unshare`; these need a user namespace, too."""
    before: Step | None = None
    """Done first, with all privileges that the user has."""
    around: Step | None = None
    """Done once these namespaces exist, before the worker's process."""
    within: Step | None = None
    """Done by the worker's process, last of all."""
    probe: Callable[[], None] = field(default=lambda: None)
    """Raises OSError where the system clearly lacks it."""


def works(attempt: Callable[[], None]) -> bool:
    """Whether a child process can do this."""
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            attempt()
            os._exit(0)
        os._exit(1)
    return os.waitpid(child, 0)[1] == 0
