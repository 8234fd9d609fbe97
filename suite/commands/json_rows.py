"""The file of `--json`: a row as it comes, one JSON object a line."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from suite.records import UsageError, escaped


def refuse_to_overwrite(file: Path) -> None:
    """Raise UsageError for a file that does not hold JSON rows: it may be the very submission."""
    with suppress(OSError):
        if file.is_file() and file.read_bytes()[:1] not in (b"", b"{"):
            raise UsageError(
                f"{file} exists and does not hold JSON rows; --json would overwrite it, so name another file"
            )


class JsonRows:
    """Writes rows as JSON lines, flushed one by one, so that a crash loses none."""

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
