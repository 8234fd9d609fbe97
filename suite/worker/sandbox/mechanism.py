"""The sandbox: the type of its mechanisms, and the folder of a sandboxed worker."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from attnsuite.model.temporary import make


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


TEMPORARY = ("TMPDIR", "TEMP", "TMP")
"""Variables that name the folder for temporary files."""
COMPILED = (
    *("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR"),
    *("NUMBA_CACHE_DIR", "CUDA_CACHE_PATH"),
)
"""Variables that name a compiler's cache folder. A folder that the user sets stays, and is writable."""
OTHER_CACHES = ("XDG_CACHE_HOME", "MPLCONFIGDIR")


def make_space(environment: Mapping[str, str], mechanisms: Sequence[str], memory: int = 0) -> Space:
    """A new folder, and the caches that the user named. OSError if no folder can be made."""
    caches = dict.fromkeys(Path(environment[name]).resolve() for name in COMPILED if environment.get(name))
    writable = tuple(str(folder) for folder in caches if _can_be_made(folder))
    return Space(str(make()), tuple(mechanisms), writable, memory)


def _can_be_made(folder: Path) -> bool:
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return folder.is_dir()


def move_in(space: Space) -> None:
    """Set the working directory, the temporary folder and caches of this process to the folder."""
    os.chdir(space.folder)
    for name in TEMPORARY:
        os.environ[name] = space.folder
    for name in (*COMPILED, *OTHER_CACHES):
        if name in OTHER_CACHES or not os.environ.get(name):
            os.environ[name] = str(Path(space.folder, "caches", name.lower()))
    tempfile.tempdir = None  # discard an earlier value
