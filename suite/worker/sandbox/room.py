"""The folder that a walled worker has for itself: made and removed by the suite, for temporary files and caches."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from attnsuite.model.temporary import make
from attnsuite.worker.sandbox.wall import Room

TEMPORARY = ("TMPDIR", "TEMP", "TMP")
"""Variables that name the folder for temporary files."""
COMPILED = (
    *("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR"),
    *("NUMBA_CACHE_DIR", "CUDA_CACHE_PATH"),
)
"""Variables that name a folder for what a compiler made. One that the user sets stays, and is writable."""
OTHER_CACHES = ("XDG_CACHE_HOME", "MPLCONFIGDIR")


def make_room(environment: Mapping[str, str], memory: int = 0) -> Room:
    """A new folder, and the caches that the user named. OSError where no folder can be made."""
    folder = make()
    named = (Path(environment[name]).resolve() for name in COMPILED if environment.get(name))
    writable = tuple(dict.fromkeys(each for each in named if _made(each)))
    return Room(folder, writable, memory)


def _made(folder: Path) -> bool:
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return folder.is_dir()


def move_in(room: Room) -> None:
    """Have this process work in its room, and keep there what it would keep elsewhere."""
    os.chdir(room.folder)
    for name in TEMPORARY:
        os.environ[name] = str(room.folder)
    for name in (*COMPILED, *OTHER_CACHES):
        if name in OTHER_CACHES or not os.environ.get(name):
            os.environ[name] = str(room.folder / "caches" / name.lower())
    tempfile.tempdir = None  # it may have been found already
