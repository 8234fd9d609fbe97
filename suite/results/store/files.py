"""Lines and files: rows appended whole or not at all, files replaced at once, one writer at a time."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from attnsuite.model import Refusal, UsageError

Row = Mapping[str, Any]
DIGITS = 16
"""Hexadecimal digits of a digest: 64 bits tell a file that was changed by mistake from one that was not."""
DEEPEST = 40
"""Objects and lists within each other that are read: a run writes ten at most, and Python's own limit is a crash."""


class Refused(UsageError):
    """Something in a file of results is not as it should be; `refusal` says where and why."""

    def __init__(self, path: Path, what: str, where: int | str = "", remedy: str = "") -> None:
        place = f"line {where}" if isinstance(where, int) and where else str(where or "")
        self.refusal = Refusal(str(path), place, what)
        super().__init__("; ".join(filter(None, (str(self.refusal), remedy))))


class Damaged(Refused):
    """A file of results is not as it was written."""

    def __init__(self, path: Path, what: str, where: int | str = "", remedy: str = "") -> None:
        restore = f"`git checkout HEAD -- {path.parent}` brings back what was committed of the folder"
        super().__init__(path, what, where, remedy or f"{restore}, or move it away and run anew")


Amiss: TypeAlias = Callable[[Refused], None]
"""What is done about something amiss: a reader that is told goes on with the rest."""


def raised(refused: Refused) -> None:
    """Raise the first thing that is amiss, and so read nothing that is not as it was written."""
    raise refused


@contextmanager
def one_line(path: Path, what: str) -> Iterator[None]:
    """Turn what the system says about a file into one line for the user."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path} cannot be {what}: {error.strerror or error}") from None


def parsed_rows(
    path: Path, data: bytes, *, appended: bool = False, remedy: str = "", amiss: Amiss = raised
) -> Iterator[tuple[int, Row]]:
    """The rows in the data of a file, with their line numbers. A line that is none is amiss.

    Where rows are `appended` one by one, a last line that never got its end is passed over.
    """
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        row = _parsed(line)
        if isinstance(row, dict):
            yield number, row
        elif line.strip() and not (appended and number == len(lines)):
            amiss(Damaged(path, f"this is no row of results ({_excerpt(line)})", number, remedy))


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


def parsed(data: bytes) -> Any:
    """The JSON value in the data. Raises ValueError where there is none: a name that stands twice in an object and
    objects in more than DEEPEST others are none.
    """
    try:
        value = json.loads(data, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError("this is nested too deeply") from None
    if data.count(b"[") + data.count(b"{") > DEEPEST and _depth(value) > DEEPEST:
        raise ValueError("this is nested too deeply")
    return value


def _parsed(line: bytes) -> Any:
    try:
        return parsed(line)
    except ValueError:
        return None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def _depth(value: Any) -> int:
    """In how many objects and lists the innermost of them lies."""
    depth, inner = 0, [value]
    while inner := [each for each in inner if isinstance(each, (dict, list))]:
        depth += 1
        inner = [each for of in inner for each in (of.values() if isinstance(of, dict) else of)]
    return depth


def _excerpt(line: bytes) -> str:
    text = ascii(line[:40].decode(errors="replace"))
    return text if len(line) <= 40 else f"{text}…"
