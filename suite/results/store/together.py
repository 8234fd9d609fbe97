"""Several files of a folder replaced together: whoever reads, or a crash, finds all old ones or all new ones."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from attnsuite.model.regular import read_bytes
from attnsuite.results.store.files import one_line

BEGUN, COMPLETE = ".begun", ".complete"
"""The folder that new files are written to, before and after all of them are there. Renaming it is what replaces the
old files; moving the new ones to their places is tidying up, which anybody may do later."""


def replace_together(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Replace these files of the folder by others, or remove those whose content is empty.

    Raises UsageError when they cannot be written; then the old ones stay.
    """
    settle(folder)
    with one_line(folder, "written"):
        try:
            (folder / BEGUN).mkdir()
            for name, content in contents.items():
                _write(folder / BEGUN / name, content)
            (folder / BEGUN).rename(folder / COMPLETE)
        finally:
            shutil.rmtree(folder / BEGUN, ignore_errors=True)
    settle(folder)


def settle(folder: Path) -> None:
    """Finish what a process that was killed left: new files that are complete go to their places, others are dropped.

    Only the one writer of a folder may call this. Raises UsageError when it cannot be done.
    """
    complete = folder / COMPLETE
    with one_line(folder, "written"):
        shutil.rmtree(folder / BEGUN, ignore_errors=True)
        if not complete.is_dir():
            return
        for file in sorted(complete.iterdir()):
            _settle(file, folder / file.name)
        complete.rmdir()


def content(folder: Path, name: str) -> bytes:
    """What a file of the folder holds, whether or not it is in its place already; nothing where there is none."""
    for path in (folder / COMPLETE / name, folder / name):
        with one_line(path, "read"), suppress(FileNotFoundError, NotADirectoryError):
            return read_bytes(path)
    return b""


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _settle(file: Path, place: Path) -> None:
    if file.stat().st_size:
        file.replace(place)
    else:
        place.unlink(missing_ok=True)
        file.unlink()
