"""Draw the covering array of a contract anew and write its files: `python -m attnsuite.conformance.drawing attention`.

A row may hide a mistake, by rounding for example, though the levels meet in it that the mutant needs. So rows are added
until each mutant is killed that is wrong only where two levels meet. Then rows are removed that others make needless.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from random import Random

from attnsuite.cases.covering import Drawing, Meeting, Row, Space, for_triples, met_in
from attnsuite.conformance.audit import array_of, killed_by, killed_in
from attnsuite.contracts import contract as contract_named

SEED = 4
"""The seed of the stored array."""
CANDIDATES = 40
"""The rows from which each one of the stored array is chosen: ten times as many as for an array of another seed."""
MAX_TRIES = 12
"""Rows that are drawn for a mutant where levels meet, before it is left alive."""

Wanted = Mapping[str, frozenset[Meeting]]
"""By mistake, the pairs of levels where alone it may be made."""
Killed = list[tuple[Row, frozenset[str]]]
"""Rows, each with the mistakes that it kills."""


def draw(name: str) -> None:
    """Draw the rows, add rows for surviving mutants, remove needless ones, and write the files."""
    array = array_of(name)
    wanted = {mistake: frozenset(meetings) for mistake, meetings in array.wrong_only_where(fused=False).items()}
    rows = list(Drawing(array.space, Random(SEED), array.space.meetings(fused=False), CANDIDATES).rows())
    killed = list(zip(rows, killed_in(name, rows, os.cpu_count() or 1), strict=True))
    pairs = thinned(array.space, wanted, completed(name, array.space, wanted, killed))
    for file, drawn in zip(array.files, (pairs, for_triples(array.space, SEED, pairs)), strict=True):
        file.write_text("".join(f"{array.space.write(row)}\n" for row in drawn))
        print(f"{len(drawn)} rows in {file.name}")


def completed(name: str, space: Space, wanted: Wanted, rows: Killed) -> Killed:
    """The rows, and more of them for the mutants that survive where two levels meet."""
    survivors = {(mistake, met) for mistake, meetings in wanted.items() for met in meetings}
    survivors.difference_update(kill for row, names in rows for kill in _kills(wanted, row, names))
    print(f"{len(survivors)} mistakes where two levels meet are missed by {len(rows)} rows", flush=True)
    drawing = Drawing(space, Random(SEED), {meeting for _, meeting in survivors}, CANDIDATES)
    added: Killed = []
    missed = 0
    while survivors:
        mistake, meeting = min(survivors)
        row, names = _killing(name, drawing, mistake, meeting)
        missed += mistake not in names
        survivors.difference_update([(mistake, meeting)], _kills(wanted, row, names))
        drawing.unmet = {meeting for _, meeting in survivors}
        added.append((row, names))
    print(f"{missed} are missed with {len(added)} more rows", flush=True)
    return [*rows, *added]


def _killing(name: str, drawing: Drawing, mistake: str, meeting: Meeting) -> tuple[Row, frozenset[str]]:
    """A row with these levels that kills the mistake, and all that it kills; the last one tried, where none does.

    After half of the tries, other levels are usual ones where they may be: unusual ones may hide the mistake.
    """
    plain = Drawing(drawing.space, drawing.random, ())
    for number in range(MAX_TRIES):
        row = (drawing if number < MAX_TRIES // 2 else plain).row(dict(meeting))
        killed = killed_by(contract_named(name), row)
        if mistake in killed:
            break
    return row, killed


def thinned(space: Space, wanted: Wanted, rows: Killed) -> list[Row]:
    """The rows that have a meeting or a kill that no other row has; costly ones are removed first."""
    tasks = [[*_met(space, row), *_kills(wanted, row, names)] for row, names in rows]
    count = Counter(task for tasks_of_row in tasks for task in tasks_of_row)
    cost = space.cost or (lambda row: 1.0)
    needed = set(range(len(rows)))
    for place in sorted(needed, key=lambda place: -cost(rows[place][0])):
        if all(count[task] > 1 for task in tasks[place]):
            count.subtract(tasks[place])
            needed.remove(place)
    return [rows[place][0] for place in sorted(needed)]


def _met(space: Space, row: Row) -> Iterator[Hashable]:
    """The meetings of a row, for each list of factors that it lacks."""
    for number, lacking in enumerate((*space.lacking, ())):
        if all(row[name] == space.usual[name] for name in lacking):
            yield from ((number, meeting) for meeting in met_in(row, fused=False))


def _kills(wanted: Wanted, row: Row, killed: frozenset[str]) -> Iterator[tuple[str, Meeting]]:
    """The mistakes that a row kills, each with the meetings of the row where it alone may be made."""
    for mistake in killed:
        yield from ((mistake, meeting) for meeting in wanted[mistake].intersection(met_in(row, fused=False)))


if __name__ == "__main__":
    draw(sys.argv[1])
