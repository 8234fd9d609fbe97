"""Steps that many series of a timed table make in one run: it may be what they all refer to that changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from attnsuite.model import Change, Series

MANY = 3
"""Series of a table that have to step alike, and at least half of all in it, for the baseline to be suspected."""


def with_suspicion(series: Sequence[Series]) -> list[Series]:
    """The same series; where many of a table step alike beside one baseline, each step has a mark that says so."""
    ratios = [each for each in series if each.quantity == "ratio"]
    members = Counter(_table(each) for each in ratios)
    alike = Counter((_table(each), change.run, change.verdict) for each in ratios for change in each.changes)

    def suspected(of: Series, change: Change) -> Change:
        count, among = alike[_table(of), change.run, change.verdict], members[_table(of)]
        if of.quantity != "ratio" or count < max(MANY, among / 2):
            return change
        return replace(change, marks=(*change.marks, f"{count} of {among} alike: {of.baseline} may be what changed"))

    return [replace(each, changes=tuple(suspected(each, change) for change in each.changes)) for each in series]


def _table(of: Series) -> tuple[str, str, str]:
    return of.contract, of.table, of.baseline
