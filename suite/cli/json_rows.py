"""The file of `--json`: one JSON object per line, written when the result is final."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from attnsuite.model import UsageError, escaped

KEYS = frozenset({"implementation", "contract", "status"})
"""Keys of every row; rows of the same files in results/ have no contract."""
ABOUT = frozenset({"case", "workload"})
"""A row has one of these keys: `case` for an outcome, `workload` for a measurement."""
LONGEST_ROW = 2**24
"""Bytes that are read to recognise a row. A row with all its samples and a long message is shorter."""


def refuse_to_overwrite(file: Path) -> None:
    """Raise UsageError for a file that holds other text than rows of results: it may be the submission itself."""
    if file.is_symlink() and not file.exists():
        raise UsageError(f"{file} is a broken link; name another file")
    with suppress(OSError):
        if file.is_file() and not _holds_rows(file):
            raise UsageError(f"{file} exists and holds no JSON rows; name another file for --json")


def _holds_rows(file: Path) -> bool:
    """Whether the first line is a row, or the file is empty."""
    with file.open("rb") as opened:
        first = opened.readline(LONGEST_ROW)
    try:
        keys = set(json.loads(first)) if first else set()
        return not first or (keys >= KEYS and not ABOUT.isdisjoint(keys) and "run" not in keys)
    except (ValueError, TypeError, RecursionError):
        return False


class JsonRows:
    """Writes rows as JSON lines and flushes each one, so that a crash loses no final row."""

    def __init__(self, target: str | None) -> None:
        self.target = target
        self._file: IO[str] | None = None

    def __enter__(self) -> JsonRows:
        if self.target == "-":
            self._file = sys.stdout
        elif self.target is not None:
            refuse_to_overwrite(Path(self.target))
            try:
                self._file = Path(self.target).open("w", encoding="utf-8")
            except OSError as error:
                raise UsageError(f"{self.target} cannot be written: {error.strerror}") from None
        return self

    def write(self, row: Mapping[str, object]) -> None:
        """Write one row as a line of JSON."""
        if self._file is None:
            return
        try:
            printable = {name: escaped(value) if isinstance(value, str) else value for name, value in row.items()}
            self._file.write(json.dumps(printable, ensure_ascii=False) + "\n")
            self._file.flush()
        except OSError as error:
            raise UsageError(f"{self.target} cannot be written: {error.strerror}; the rows before stay") from None

    def __exit__(self, *_: object) -> None:
        if self._file is not None and self._file is not sys.stdout:
            with suppress(OSError):
                self._file.close()
