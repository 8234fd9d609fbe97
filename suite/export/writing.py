"""Files that are there whole or not at all: a graph and, where its weights are many, their file beside it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from suite.records import UsageError


@contextmanager
def replacing(file: Path, force: bool) -> Iterator[Path]:
    """A place beside `file` to write to; what lies there at the end, and only then, is moved to where it belongs.

    Whatever is raised inside leaves `file` and `FILE.data` as they were. UsageError if one exists, unless `force`.
    """
    data = file.with_name(f"{file.name}.data")
    if file.is_dir():
        raise UsageError(f"{file} is a folder, due is the name of a file, as {file / 'model.onnx'}")
    if data.is_dir():
        raise UsageError(f"{data} is a folder, and weights beyond 2 GiB would go to a file of that name")
    if there := [each for each in (file, data) if each.exists() and not force]:
        raise UsageError(f"{there[0]} exists; --force replaces it")
    try:
        with tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent) as folder:
            yield Path(folder, file.name)
            _move(Path(folder), file, data)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror or error}") from error


def _move(folder: Path, file: Path, data: Path) -> None:
    """Move the files out of the folder. An old graph never stands beside new numbers, nor a new one beside old."""
    if not (folder / data.name).exists() and not data.exists():
        (folder / file.name).replace(file)
        return
    aside = folder / "before"
    aside.mkdir()
    before = [each for each in (file, data) if each.exists()]
    try:
        for each in before:
            each.replace(aside / each.name)
        for each in (data, file):
            if (folder / each.name).exists():
                (folder / each.name).replace(each)
    except BaseException:
        for each in before:
            if (aside / each.name).exists():
                (aside / each.name).replace(each)
        raise
