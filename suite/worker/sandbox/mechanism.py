"""The type of a mechanism of the sandbox: its application, its protections, and its detection."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

from msgspec import Struct


class Protection(StrEnum):
    """A protection or a limit that a mechanism provides."""

    PROCESSES = "what it starts"
    READING = "the memory of others"
    SIGNALS = "signals"
    FILES = "files"
    NETWORK = "the network"
    SIZE = "its memory"


class Space(Struct, frozen=True):
    """The folders and limits of a sandboxed worker, and its mechanisms."""

    folder: str
    """Its working directory and temporary folder."""
    mechanisms: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    """Further writable folders: caches that the user named."""
    memory: int = 0
    """Bytes that each of its processes may take; 0 means no limit."""
    namespaced: bool = False
    """Whether it is in a PID namespace of its own."""


Step = Callable[[Space], None]


@dataclass(frozen=True)
class Mechanism:
    """One part of the sandbox. Its steps raise OSError if the machine does not have it."""

    name: str
    protects: frozenset[Protection]
    namespaces: int = 0
    """The namespaces that it needs, as flags of `unshare`, in addition to a user namespace."""
    before: Step | None = None
    """The first step, with all privileges of the user."""
    around: Step | None = None
    """The step after the namespaces exist, before the worker's process does."""
    within: Step | None = None
    """The last step, in the worker's process."""
    probe: Callable[[], None] = field(default=lambda: None)
    """Raises OSError if the system clearly lacks the mechanism."""


def works(attempt: Callable[[], None]) -> bool:
    """Whether this succeeds in a child process."""
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            attempt()
            os._exit(0)
        os._exit(1)
    return os.waitpid(child, 0)[1] == 0
