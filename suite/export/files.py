"""Replacement of a graph and of the file of its weights, if there is one, once both are complete."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attnsuite.model import UsageError, temporary

NEW = "new"
"""The folder of new files in the temporary one."""


@contextmanager
def replacing(file: Path, force: bool) -> Iterator[Path]:
    """A path in a temporary folder; its files replace `file` and `FILE.data` when the block ends without an exception.

    Raises UsageError if one of these exists, unless `force`; of two exports at once one then fails.
    """
    data = file.with_name(f"{file.name}.data")
    if file.is_dir() or data.is_dir():
        raise UsageError(f"{file if file.is_dir() else data} is a folder, expected the name of a file, as model.onnx")
    if former := [path for path in (file, data) if os.path.lexists(path) and not force]:
        raise UsageError(f"{former[0]} exists; --force replaces it")
    try:
        for folder in temporary.left_behind(file.parent):
            temporary.remove(folder)
        with temporary.temporary("export-", file.parent) as folder:
            new = folder / NEW
            new.mkdir()
            yield new / file.name
            if not force:
                file.open("x").close()
            data.unlink(missing_ok=True)
            for path in (data, file):
                if (new / path.name).exists():
                    (new / path.name).replace(path)
    except FileExistsError:
        raise UsageError(f"{file} was written by another program meanwhile; --force replaces it") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror or error}") from error
