"""Temporary folders that do not stay where whoever made them is killed: another process finds that nobody holds them.

A folder is held by a lock on itself, which ends with the process. Who finds one that nobody holds, holds it while
removing it: so no two do that, and none is removed between being made and being held by its maker.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX, HELD = "attnsuite-", ".held"
"""How the names of all begin, and of those that can be held end. Others are never removed by another process."""

_held: dict[Path, int] = {}
"""The folders of this process, and the file descriptors that hold them."""


@contextmanager
def temporary(kind: str = "", within: Path | None = None) -> Iterator[Path]:
    """A folder that is removed afterwards; in the system's folder for such, or within another, where it is hidden."""
    folder = make(kind, within)
    try:
        yield folder
    finally:
        remove(folder)


def make(kind: str = "", within: Path | None = None) -> Path:
    """A new folder, held until it is removed. OSError where none can be made."""
    while True:
        prefix = f"{'.' if within else ''}{PREFIX}{kind}"
        folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=HELD, dir=within)).resolve()
        try:
            descriptor = _hold(folder)
        except OSError:  # not on this system, or file system: then nobody else can hold it, either
            return folder
        if descriptor is not None:
            _held[folder] = descriptor
            return folder


def remove(folder: Path) -> None:
    """Remove the folder with all that is in it, whatever it was made to look like. A link is not followed."""
    for place, names, _ in os.walk(folder):
        for name in names:
            path = Path(place, name)
            with suppress(OSError):
                if stat.S_ISDIR(path.lstat().st_mode):
                    path.chmod(stat.S_IRWXU)
    shutil.rmtree(folder, ignore_errors=True)
    if folder in _held:
        os.close(_held.pop(folder))


def left_behind(within: Path | None = None) -> Iterator[Path]:
    """The folders of processes that were killed. Each is held here from now on, to be removed."""
    place, pattern = (within, f".{PREFIX}*{HELD}") if within else (tempfile.gettempdir(), f"{PREFIX}*{HELD}")
    for folder in Path(place).resolve().glob(pattern):
        with suppress(OSError):  # it is gone, or not ours
            descriptor = None if folder in _held else _hold(folder)
            if descriptor is not None:
                _held[folder] = descriptor
                yield folder


def _hold(folder: Path) -> int | None:
    """A file descriptor that holds the folder; None where another process does, or it is gone.

    Raises OSError where that cannot be, and where it is another user's.
    """
    try:
        import fcntl
    except ImportError as error:  # Windows
        raise OSError("this system has no locks on folders") from error
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    held = False
    try:
        of = os.fstat(descriptor)
        if of.st_uid != os.geteuid():
            raise PermissionError(f"{folder} is another user's")
        with suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = os.path.samestat(of, folder.lstat())  # else it was removed meanwhile
    finally:
        if not held:
            os.close(descriptor)
    return descriptor if held else None
