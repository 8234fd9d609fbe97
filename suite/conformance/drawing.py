"""Draw the array of a contract anew and write its files: `python -m suite.conformance.drawing attention`.

A row may hide a mistake, by rounding for example, though the levels meet in it that the mistake needs. So rows are
added until each mistake that is made only where levels meet is caught in the array that is kept.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from random import Random

from suite.asking.combined import Array
from suite.asking.covering import Drawing, Row, drawn, pairs_first
from suite.conformance.combinations import array_of, caught_by, caught_in, seen_in

SEED = 1
"""Of the array that is kept."""
TRIES = 12
"""Rows that are drawn for a mistake where levels meet, before it is left uncaught."""


def draw(name: str) -> None:
    """Draw, mend and write."""
    array = array_of(name)
    pairs, others = pairs_first(drawn(array.space, SEED, fused=True))
    quick = mended(name, array, pairs, fused=False)
    full = mended(name, array, [*quick, *others], fused=True)
    for file, rows in zip(array.files, (quick, full[len(quick) :]), strict=True):
        file.write_text("".join(f"{array.space.write(row)}\n" for row in rows))
        print(f"{len(rows)} rows in {file.name}")


def mended(name: str, array: Array, rows: Sequence[Row], fused: bool) -> list[Row]:
    """The rows, and more of them for the mistakes that none catches where pairs, or fused triples, meet."""
    found = list(rows)
    seen = {each: set(met) for each, met in seen_in(found, caught_in(name, found, os.cpu_count() or 1), fused).items()}
    missed = {
        (mistake, met)
        for mistake, mets in array.wrong_only_where(fused).items()
        for met in mets
        if met not in seen.setdefault(mistake, set())
    }
    print(f"{len(missed)} mistakes where {'triples' if fused else 'pairs'} meet are missed by {len(found)} rows")
    drawing = Drawing(array.space, Random(SEED), {met for _, met in missed})
    for mistake, met in sorted(missed):
        for _ in range(TRIES if met not in seen[mistake] else 0):
            row = drawing.completed(dict(met))
            assert row is not None, "what is possible can be completed"
            caught = caught_by(array, row)
            if mistake in caught:
                found.append(row)
                for other, mets in seen_in([row], [caught], fused).items():
                    seen[other] |= mets
                break
        else:
            if met not in seen[mistake]:
                print(f"left: {mistake} {met}")
    return found


if __name__ == "__main__":
    draw(sys.argv[1])
