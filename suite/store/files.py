"""Lines and files: rows appended whole or not at all, files replaced at once, one writer at a time."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from suite.records import UsageError

Row = Mapping[str, Any]
DIGITS = 16
"""Hexadecimal digits of a digest: 64 bits tell a file that was changed by mistake from one that was not."""


class Damaged(UsageError):
    """A file of results is not as it was written."""

    def __init__(self, path: Path, what: str, line: int = 0, remedy: str = "") -> None:
        place = f"{path}, line {line}" if line else path
        restore = f"`git checkout HEAD -- {path.parent}` brings back what was committed of the folder"
        super().__init__(f"{place}: {what}; {remedy or f'{restore}, or move it away and run anew'}")


@contextmanager
def one_line(path: Path, what: str) -> Iterator[None]:
    """Turn what the system says about a file into one line for the user."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path} cannot be {what}: {error.strerror or error}") from None


def parsed_rows(path: Path, data: bytes, *, appended: bool = False, remedy: str = "") -> Iterator[tuple[int, Row]]:
    """The rows in the data of a file, with their line numbers. Raises Damaged for a line that is none.

    Where rows are `appended` one by one, a last line that never got its end is passed over.
    """
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        row = _parsed(line)
        if isinstance(row, dict):
            yield number, row
        elif line.strip() and not (appended and number == len(lines)):
            raise Damaged(path, f"this is no row of results ({_excerpt(line)})", number, remedy)


def mend(path: Path) -> str:
    """Give the last line its end, or drop it when a crash left only a part of it; say so."""
    with one_line(path, "written"):
        if not path.exists():
            return ""
        with path.open("rb+") as file:
            last = file.read().rpartition(b"\n")[2]
            if not last:
                return ""
            if isinstance(_parsed(last), dict):
                file.write(b"\n")
                return ""
            file.seek(-len(last), os.SEEK_END)
            file.truncate()
    return f"{path}: the last row was cut off by a crash ({_excerpt(last)}) and is dropped"


def open_to_append(path: Path) -> int:
    """A file descriptor whose writes go to the end of the file."""
    with one_line(path, "written"):
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)


def append(file: int, path: Path, row: Row) -> bytes:
    """Append one row and return its bytes. When there is no room for all of it, none of it stays."""
    data = whole = encoded(row_text(row))
    with one_line(path, "written"):
        size = os.fstat(file).st_size
        try:
            while data:
                data = data[os.write(file, data) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(file, size)
            raise
    return whole


def row_text(row: Row) -> str:
    """A row as the line of text that stands for it."""
    return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"


def encoded(text: str) -> bytes:
    """The bytes of a text. A lone surrogate becomes the escape that JSON has for it."""
    return text.encode(errors="backslashreplace")


def digest(text: str) -> str:
    """What tells a text from one that was altered."""
    return hashlib.sha256(encoded(text)).hexdigest()[:DIGITS]


def replace_file(path: Path, text: str) -> None:
    """Write a whole file of text so that a reader, or a crash, sees the old one or the new one and nothing between."""
    replace_bytes(path, encoded(text))


def replace_bytes(path: Path, data: bytes) -> None:
    """Write a whole file so that a reader, or a crash, sees the old one or the new one and nothing between."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with one_line(path, "written"):
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def lock(folder: Path) -> tuple[int | None, str]:
    """Lock the folder itself, which leaves no file behind; where that cannot be done, a note says so.

    Raises UsageError when another process holds it.
    """
    alone = "let no other attnsuite write there meanwhile"
    try:
        import fcntl
    except ImportError:  # Windows
        return None, f"{folder} cannot be locked on this system: {alone}"
    with one_line(folder, "opened"):
        held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        raise UsageError(f"another attnsuite is writing to {folder}: wait until it ends, or stop it") from None
    except OSError as error:  # some network file systems
        os.close(held)
        return None, f"{folder} cannot be locked ({error.strerror}): {alone}"
    return held, ""


def unlock(held: int | None) -> None:
    """Let the next writer in."""
    if held is not None:
        os.close(held)


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _excerpt(line: bytes) -> str:
    text = ascii(line[:40].decode(errors="replace"))
    return text if len(line) <= 40 else f"{text}…"
