"""Temporary folders that are removed even if their process is killed: later processes remove unlocked ones.

A lock on the folder ends with its process. A process that finds an unlocked folder locks it before it removes it, so
that no two remove it, and none removes a folder whose process has yet to lock it.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX, SUFFIX = "attnsuite-", ".held"
"""The beginning and the end of the names of folders that other processes may remove."""

_locks: dict[Path, int] = {}
"""The folders of this process, with the file descriptors of their locks."""


@contextmanager
def temporary(kind: str = "", within: Path | None = None) -> Iterator[Path]:
    """A folder that is removed after the block; in the system's temporary folder, or hidden within another."""
    folder = make(kind, within)
    try:
        yield folder
    finally:
        remove(folder)


def make(kind: str = "", within: Path | None = None) -> Path:
    """A new folder, locked until it is removed. OSError where none can be made."""
    while True:
        prefix = f"{'.' if within else ''}{PREFIX}{kind}"
        folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=SUFFIX, dir=within)).resolve()
        try:
            descriptor = _lock(folder)
        except OSError:  # a system or file system without locks, where no other process removes it, either
            return folder
        if descriptor is not None:
            _locks[folder] = descriptor
            return folder


def remove(folder: Path) -> None:
    """Remove the folder with all its content, whatever its permissions. Links are not followed."""
    for place, names, _ in os.walk(folder):
        for name in names:
            path = Path(place, name)
            with suppress(OSError):
                if stat.S_ISDIR(path.lstat().st_mode):
                    path.chmod(stat.S_IRWXU)
    shutil.rmtree(folder, ignore_errors=True)
    if folder in _locks:
        os.close(_locks.pop(folder))


def left_behind(within: Path | None = None) -> Iterator[Path]:
    """The folders of killed processes, each locked by this process, which should remove it."""
    place, pattern = (within, f".{PREFIX}*{SUFFIX}") if within else (tempfile.gettempdir(), f"{PREFIX}*{SUFFIX}")
    for folder in Path(place).resolve().glob(pattern):
        with suppress(OSError):  # another process has removed it, or another user owns it
            descriptor = None if folder in _locks else _lock(folder)
            if descriptor is not None:
                _locks[folder] = descriptor
                yield folder


def _lock(folder: Path) -> int | None:
    """A file descriptor that locks the folder; None where another process locks it, or has removed it.

    Raises OSError on systems without such locks, and for another user's folder.
    """
    try:
        import fcntl
    except ImportError as error:  # Windows
        raise OSError("this system has no locks on folders") from error
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    locked = False
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid():
            raise PermissionError(f"{folder} is another user's")
        with suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            locked = os.path.samestat(status, folder.lstat())  # else it was removed meanwhile
    finally:
        if not locked:
            os.close(descriptor)
    return descriptor if locked else None
