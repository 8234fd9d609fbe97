"""Files that are there whole or not at all: a graph and, where its weights are many, their file beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attnsuite.model import UsageError, temporary

NEW, BEFORE = "new", "before"
"""The folders, within the temporary one, of what is written, and of files while they are replaced."""


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
    if there := [each for each in (file, data) if os.path.lexists(each) and not force]:
        raise UsageError(f"{there[0]} exists; --force replaces it")
    try:
        for folder in temporary.left_behind(file.parent):
            if not (folder / BEFORE).exists():  # killed while files were moved: what was there before lies in it
                temporary.remove(folder)
        with temporary.temporary("export-", file.parent) as folder:
            (folder / NEW).mkdir()
            yield folder / NEW / file.name
            _move(folder, file, data)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror or error}") from error


def _move(folder: Path, file: Path, data: Path) -> None:
    """Move the files out of the folder. An old graph never stands beside new numbers, nor a new one beside old."""
    new, aside = folder / NEW, folder / BEFORE
    if not (new / data.name).exists() and not data.exists():
        (new / file.name).replace(file)
        return
    aside.mkdir()
    before = [each for each in (file, data) if each.exists()]
    try:
        for each in before:
            each.replace(aside / each.name)
        for each in (data, file):
            if (new / each.name).exists():
                (new / each.name).replace(each)
    except BaseException:
        for each in before:
            if (aside / each.name).exists():
                (aside / each.name).replace(each)
        raise
