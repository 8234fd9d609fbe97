"""The file of a machine that says how far its runs lie apart: times of the same code in one run after the other."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import asdict

from attnsuite.model.repeated import Repeated
from attnsuite.results.store import together
from attnsuite.results.store.files import Damaged, parsed_rows, replace_file, row_text
from attnsuite.results.store.typed import typed

FILE = "between_runs.jsonl"
"""A row for each implementation in each run, the newest last."""
MOST_RUNS = 64
"""Runs that are kept, the newest: more tell little more of their spread, and machines change."""


def read(folder: Path) -> list[Repeated]:
    """The rows of a machine's folder; none where there is no such file. UsageError for what is no such row."""
    path = folder / FILE
    found = []
    for number, row in parsed_rows(path, together.content(folder, FILE)):
        try:
            repeated = typed(Repeated, row)
        except (ValueError, TypeError, KeyError) as error:
            raise Damaged(path, str(error), number) from None
        if not all(0 < value < math.inf for value in (repeated.seconds, repeated.ratio)):
            raise Damaged(path, "a time and a ratio are numbers above 0", number)
        found.append(repeated)
    return found


def add(folder: Path, rows: Iterable[Repeated]) -> Path:
    """Add the rows of a run, and drop those of the oldest runs beyond MOST_RUNS. UsageError if it cannot be written."""
    every = [*read(folder), *rows]
    kept = set(list(dict.fromkeys(row.run for row in every))[-MOST_RUNS:])
    lines = [row_text(_rounded(row)) for row in every if row.run in kept]
    replace_file(folder / FILE, "".join(lines))
    return folder / FILE


def _rounded(row: Repeated) -> dict[str, object]:
    return asdict(row) | {"seconds": float(f"{row.seconds:.6g}"), "ratio": float(f"{row.ratio:.6g}")}
