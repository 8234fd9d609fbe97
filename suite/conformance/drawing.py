"""Draw the array of a contract anew and write its files: `python -m attnsuite.conformance.drawing attention`.

A row may hide a mistake, by rounding for example, though the levels meet in it that the mistake needs. So rows are
added until each mistake is caught that is made only where two levels meet. Of triples so many are caught without that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from random import Random

from attnsuite.cases.contract import CoveringArray
from attnsuite.cases.covering import Drawing, Meeting, Row, drawn, for_triples
from attnsuite.conformance.combinations import array_of, caught_by, caught_in, seen_in
from attnsuite.contracts import contract as contract_named

SEED = 4
"""Of the array that is kept: among the first 13 seeds, that of the fewest rows."""
TRIES = 12
"""Rows that are drawn for a mistake where levels meet, before it is left uncaught."""


def draw(name: str) -> None:
    """Draw, mend and write."""
    array = array_of(name)
    pairs = mended(name, array, drawn(array.space, SEED, fused=False))
    for file, rows in zip(array.files, (pairs, for_triples(array.space, SEED, pairs)), strict=True):
        file.write_text("".join(f"{array.space.write(row)}\n" for row in rows))
        print(f"{len(rows)} rows in {file.name}")


def mended(name: str, array: CoveringArray, rows: Sequence[Row]) -> list[Row]:
    """The rows, and more of them for the mistakes that none catches where two levels meet."""
    found = list(rows)
    seen = {each: set(met) for each, met in seen_in(found, caught_in(name, found, os.cpu_count() or 1), False).items()}
    missed = {
        (mistake, met)
        for mistake, mets in array.wrong_only_where(fused=False).items()
        for met in mets
        if met not in seen.setdefault(mistake, set())
    }
    print(f"{len(missed)} mistakes where two levels meet are missed by {len(found)} rows", flush=True)
    drawing = Drawing(array.space, Random(SEED), {met for _, met in missed})
    for mistake, met in sorted(missed):
        if met not in seen[mistake]:
            row, caught = _catching(name, drawing, mistake, met)
            found.append(row)
            for other, mets in seen_in([row], [caught], False).items():
                seen[other] |= mets
    return found


def _catching(name: str, drawing: Drawing, mistake: str, met: Meeting) -> tuple[Row, frozenset[str]]:
    """A row with these levels that catches the mistake, and what it catches; the last one tried, where none does."""
    for left in reversed(range(TRIES)):
        row = drawing.row(dict(met))
        caught = caught_by(contract_named(name), row)
        if mistake in caught or not left:
            break
    return row, caught


if __name__ == "__main__":
    draw(sys.argv[1])
