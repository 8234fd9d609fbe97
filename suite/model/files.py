"""Safe reading and atomic writing of files."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attnsuite.model.words import UsageError

LARGEST = 2**29
"""Bytes of the largest file that is read, compressed or not: 500 times the largest file of results."""


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


def replace_file(path: Path, text: str) -> None:
    """Write a text file atomically. UsageError if it cannot be written."""
    replace_bytes(path, encoded(text))


def replace_bytes(path: Path, data: bytes | memoryview) -> None:
    """Write a file atomically: a reader sees the old content or the new, also after a crash. UsageError on failure."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with file_errors(path, "written"):
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


@contextmanager
def file_errors(path: Path, what: str) -> Iterator[None]:
    """Turn an error of the operating system into one line for the user: `results cannot be written: …`."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path} cannot be {what}: {error.strerror or error}") from None


def encoded(text: str) -> bytes:
    """The bytes of a text; a lone surrogate becomes an escape."""
    return text.encode(errors="backslashreplace")
