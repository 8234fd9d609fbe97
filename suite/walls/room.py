"""The folder that a walled worker has for itself: made and removed by the suite, for temporary files and caches."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from suite.walls.wall import Room

PREFIX = "attnsuite-"
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
    folder = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
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


def clear(room: Room) -> None:
    """Remove the folder with all that is in it, whatever it was made to look like. A link is not followed."""
    for folder, names, _ in os.walk(room.folder):
        for name in names:
            path = Path(folder, name)
            with suppress(OSError):
                if stat.S_ISDIR(path.lstat().st_mode):
                    path.chmod(stat.S_IRWXU)
    shutil.rmtree(room.folder, ignore_errors=True)
