"""Atomic replacement of a graph and of the file of its weights, if there is one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attnsuite.model import UsageError, temporary

NEW, BEFORE = "new", "before"
"""Folders in the temporary one: new files, and former files during the replacement."""


@contextmanager
def replacing(file: Path, force: bool) -> Iterator[Path]:
    """A path in a temporary folder; its files replace `file` and `FILE.data` when the block ends without an exception.

    Raises UsageError if one of these exists, unless `force`.
    """
    data = file.with_name(f"{file.name}.data")
    if file.is_dir():
        raise UsageError(f"{file} is a folder, expected the name of a file, as {file / 'model.onnx'}")
    if data.is_dir():
        raise UsageError(f"{data} is a folder, and weights beyond 2 GiB would go to a file of that name")
    if former := [path for path in (file, data) if os.path.lexists(path) and not force]:
        raise UsageError(f"{former[0]} exists; --force replaces it")
    try:
        for folder in temporary.left_behind(file.parent):
            if not (
                folder / BEFORE
            ).exists():  # otherwise it has former files, of an export that was killed while it moved files
                temporary.remove(folder)
        with temporary.temporary("export-", file.parent) as folder:
            (folder / NEW).mkdir()
            yield folder / NEW / file.name
            _move(folder, file, data, force)
    except FileExistsError:
        raise UsageError(f"{file} was written by another program meanwhile; --force replaces it") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror or error}") from error


def _move(folder: Path, file: Path, data: Path, force: bool) -> None:
    """Move the new files to their places, both or neither: graph and weights belong together.

    Raises FileExistsError unless `force` if the file was made since the export began: of two exports one fails.
    """
    new, aside = folder / NEW, folder / BEFORE
    if not force:
        file.open("x").close()
    elif not (new / data.name).exists() and not data.exists():
        (new / file.name).replace(file)
        return
    aside.mkdir()
    former = [path for path in (file, data) if force and path.exists()]
    try:
        for path in former:
            path.replace(aside / path.name)
        for path in (data, file):
            if (new / path.name).exists():
                (new / path.name).replace(path)
    except BaseException:
        for path in former:
            if (aside / path.name).exists():
                (aside / path.name).replace(path)
        if not force:
            file.unlink(missing_ok=True)
        raise
