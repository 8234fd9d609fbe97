"""The folder of a sandboxed worker for temporary files and caches, which the suite makes and removes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from attnsuite.model.temporary import make
from attnsuite.worker.sandbox.mechanism import Space

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
    writable = tuple(str(folder) for folder in caches if _made(folder))
    return Space(str(make()), tuple(mechanisms), writable, memory)


def _made(folder: Path) -> bool:
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
