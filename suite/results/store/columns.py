"""Columns of numbers: compressed files with a line for each record, empty where it has no number."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable
from pathlib import Path

from attnsuite.model import regular
from attnsuite.results.store import together
from attnsuite.results.store.files import Damaged


def line(value: float | Iterable[float] | None, digits: int) -> str:
    """A number, or several, in a line."""
    if value is None:
        return ""
    return " ".join(f"{each:.{digits}g}" for each in ((value,) if isinstance(value, (int, float)) else value))


def packed(lines: Iterable[str]) -> bytes:
    """The lines as a gzip file without a name or a date, so that the same lines give the same bytes."""
    file = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=9, mtime=0) as packing:
        packing.write("".join(f"{each}\n" for each in lines).encode())
    return file.getvalue()


def unpacked(folder: Path, name: str) -> list[str]:
    """The lines of a file; none where there is no such file. Raises Damaged where it cannot be unpacked."""
    data = together.content(folder, name)
    try:
        return _text(data).removesuffix("\n").split("\n") if data else []
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise Damaged(folder / name, f"this cannot be unpacked ({error})") from None


def _text(data: bytes) -> str:
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        text = file.read(regular.LARGEST + 1)
    if len(text) > regular.LARGEST:
        raise ValueError(f"it holds more than {regular.LARGEST / 2**20:.0f} MiB")
    return text.decode()
