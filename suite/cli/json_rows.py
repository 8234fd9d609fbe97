"""The file of `--json`: a row at once, one JSON object a line."""

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
"""The keys of which a row has one, an outcome's or a measurement's."""
LONGEST_ROW = 2**24
"""Bytes of a row that are read to recognize it: one with all its samples and a long message is shorter."""


def refuse_to_overwrite(file: Path) -> None:
    """Raise UsageError for a file without rows of outcomes or measurements: it may be the very submission."""
    if file.is_symlink() and not file.exists():
        raise UsageError(f"{file} is a link that leads nowhere; name another file")
    with suppress(OSError):
        if file.is_file() and not _holds_rows(file):
            raise UsageError(f"{file} exists and does not hold JSON rows; name another file for --json")


def _holds_rows(file: Path) -> bool:
    """Whether the first line is a row; an empty file has nothing to lose."""
    with file.open("rb") as opened:
        first = opened.readline(LONGEST_ROW)
    try:
        keys = set(json.loads(first)) if first else set()
        return not first or (keys >= KEYS and not ABOUT.isdisjoint(keys) and "run" not in keys)
    except (ValueError, TypeError, RecursionError):
        return False


class JsonRows:
    """Writes rows as JSON lines, flushed one by one, so that a crash loses none that is final."""

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
        if self._file is None:
            return
        try:
            shown = {name: escaped(value) if isinstance(value, str) else value for name, value in row.items()}
            self._file.write(json.dumps(shown, ensure_ascii=False) + "\n")
            self._file.flush()
        except OSError as error:
            raise UsageError(f"{self.target} cannot be written: {error.strerror}; the rows before stay") from None

    def __exit__(self, *_: object) -> None:
        if self._file is not None and self._file is not sys.stdout:
            with suppress(OSError):
                self._file.close()
