"""Regular files, read whole: folders, pipes, devices and files that are too large are refused before they are read."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

LARGEST = 2**29
"""Bytes of a file, also of the content of a compressed one: about 500 times the largest file of results."""


def check(path: Path) -> int:
    """The size of a regular file in bytes. Raises OSError for any other: a device such as /dev/zero has no end."""
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return status.st_size


def read_bytes(path: Path) -> bytes:
    """The content of a file. Raises OSError for a file that is not regular or is larger than LARGEST."""
    if check(path) > LARGEST:
        raise OSError(errno.EFBIG, f"it is larger than {LARGEST / 2**20:.0f} MiB", str(path))
    return path.read_bytes()


def read_text(path: Path, errors: str = "strict") -> str:
    """The content of a file as UTF-8. Raises OSError as `read_bytes` does, and UnicodeDecodeError for other bytes."""
    return read_bytes(path).decode(errors=errors).replace("\r\n", "\n")
