"""Draw the covering array of a contract anew and write its files: `python -m attnsuite.conformance.drawing attention`.

A row may hide a mistake, by rounding for example, though the levels meet in it that the mutant needs. So rows are added
until each mutant is killed that is wrong only where two levels meet. Of triples enough are killed without that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from random import Random

from attnsuite.cases.contract import CoveringArray
from attnsuite.cases.covering import Drawing, Meeting, Row, drawn, for_triples
from attnsuite.conformance.audit import array_of, killed_by, killed_in, meetings_killed
from attnsuite.contracts import contract as contract_named

SEED = 4
"""The seed of the stored array: of the first 13 seeds, the one with the fewest rows."""
MAX_TRIES = 12
"""Rows that are drawn for a mutant where levels meet, before it is left alive."""


def draw(name: str) -> None:
    """Draw the rows, add rows for surviving mutants, and write the files."""
    array = array_of(name)
    pairs = completed(name, array, drawn(array.space, SEED, fused=False))
    for file, rows in zip(array.files, (pairs, for_triples(array.space, SEED, pairs)), strict=True):
        file.write_text("".join(f"{array.space.write(row)}\n" for row in rows))
        print(f"{len(rows)} rows in {file.name}")


def completed(name: str, array: CoveringArray, rows: Sequence[Row]) -> list[Row]:
    """The rows, and more of them for the mutants that survive where two levels meet."""
    rows = list(rows)
    killed = meetings_killed(rows, killed_in(name, rows, os.cpu_count() or 1), fused=False)
    survivors = {
        (mistake, meeting)
        for mistake, meetings in array.wrong_only_where(fused=False).items()
        for meeting in meetings
        if meeting not in killed.get(mistake, ())
    }
    print(f"{len(survivors)} mistakes where two levels meet are missed by {len(rows)} rows", flush=True)
    drawing = Drawing(array.space, Random(SEED), {meeting for _, meeting in survivors})
    added: list[tuple[Row, frozenset[str]]] = []
    for mistake, meeting in sorted(survivors):
        if meeting not in meetings_killed(*_columns(added), fused=False).get(mistake, ()):
            added.append(_killing(name, drawing, mistake, meeting))
    return [*rows, *(row for row, _ in added)]


def _columns(added: Sequence[tuple[Row, frozenset[str]]]) -> tuple[list[Row], list[frozenset[str]]]:
    return [row for row, _ in added], [names for _, names in added]


def _killing(name: str, drawing: Drawing, mistake: str, meeting: Meeting) -> tuple[Row, frozenset[str]]:
    """A row with these levels that kills the mistake, and all that it kills; the last one tried, where none does."""
    for remaining in reversed(range(MAX_TRIES)):
        row = drawing.row(dict(meeting))
        killed = killed_by(contract_named(name), row)
        if mistake in killed or not remaining:
            break
    return row, killed


if __name__ == "__main__":
    draw(sys.argv[1])
