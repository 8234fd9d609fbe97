"""The files of figures: written at once or not at all, and never over what was not written here.

An SVG file says in a comment, a PNG file in a text chunk, that attnsuite drew it, with a digest of everything else in
it. A file without such a mark is somebody else's; one whose digest does not fit was changed or damaged since.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attnsuite.documents.figures import render
from attnsuite.documents.figures.picture import Picture
from attnsuite.model import UsageError
from attnsuite.model.regular import read_bytes
from attnsuite.results.store.files import DIGITS, one_line, replace_bytes

MARK = re.compile(rb"<!-- drawn by attnsuite ([0-9a-f]{16}) -->")
"""The mark of an SVG file, behind its opening tag."""
SIGNATURE = b"\x89PNG\r\n\x1a\n"
"""How every PNG file begins."""
HEADER = len(SIGNATURE) + 25
"""Bytes: the signature and the first chunk, behind which the mark of a PNG file stands."""
KEY = b"Software\0drawn by attnsuite "
"""The text of that mark, before the digest."""


@dataclass(frozen=True)
class Target:
    """The files of one figure."""

    name: str
    svg: Path
    png: Path

    def write(self, picture: Picture) -> list[Path]:
        """Draw the picture into both files, and return their paths. A file that is the same already is left alone.

        Raises UsageError where one cannot be written.
        """
        svg = render.svg(self.name, picture)
        _write(self.svg, _marked_svg(svg.encode()))
        _write(self.png, _marked_png(render.png(svg)))
        return [self.svg, self.png]


def targets(folder: Path, names: Sequence[str], overwrite: bool = False) -> list[Target]:
    """The files in which these figures will be written; their folder is made if need be.

    Raises UsageError, before anything is written, for a file that was not written here or was changed since, unless
    `overwrite` says that it may be lost.
    """
    with one_line(folder, "made"):
        folder.mkdir(parents=True, exist_ok=True)
    found = [Target(name, folder / f"{name}.svg", folder / f"{name}.png") for name in names]
    for file in (file for target in found for file in (target.svg, target.png)):
        if file.is_dir():
            raise UsageError(f"{file} is a folder: move it away")
        if (problem := _problem(file)) and not overwrite:
            raise UsageError(f"{file} {problem}: move it away, or let it be replaced with --overwrite")
    return found


def _problem(file: Path) -> str:
    """What speaks against writing over a file, or empty."""
    try:
        data = read_bytes(file)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    mark, rest = _read(data)
    if not mark:
        return "was not drawn by attnsuite"
    return "" if mark == _digest(rest) else "was changed or damaged since attnsuite drew it"


def _read(data: bytes) -> tuple[bytes, bytes]:
    """The digest in a file's mark, empty if there is none, and the file without its mark."""
    found = MARK.search(data) if not data.startswith(SIGNATURE) else None
    if found:
        return found[1], data[: found.start()] + data[found.end() :]
    place = data.find(KEY, HEADER, HEADER + 8 + len(KEY))
    if place < 0:
        return b"", data
    end = place + len(KEY) + DIGITS
    return data[end - DIGITS : end], data[:HEADER] + data[end + 4 :]


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest()[:DIGITS].encode()


def _marked_svg(svg: bytes) -> bytes:
    whole = svg + b"\n"
    opening, ending, rest = whole.partition(b">")
    return opening + ending + b"<!-- drawn by attnsuite " + _digest(whole) + b" -->" + rest


def _marked_png(png: bytes) -> bytes:
    """The picture with a text chunk: length, type, text, and a checksum of type and text."""
    chunk = b"tEXt" + KEY + _digest(png)
    mark = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return png[:HEADER] + mark + png[HEADER:]


def _write(path: Path, data: bytes) -> None:
    with one_line(path, "read"):
        if path.is_file() and path.read_bytes() == data:
            return
    replace_bytes(path, data)
