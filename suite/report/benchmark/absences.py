"""Why there is no number: one line for each reason, with all implementations and workloads that have it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from attnsuite.model import EVERY_CASE, Measurement, Status
from attnsuite.report.benchmark import wording
from attnsuite.report.benchmark.timed_tables import natural
from attnsuite.report.cells import Cell, listed, said, status, text
from attnsuite.report.conformance.tally import pattern
from attnsuite.report.page import Table, table

MOST_NAMED = 4
"""The most implementations or workloads that are named in a line; of more, the others are counted."""
MOST_LINES = 30
"""The most lines: a submission whose messages all differ would fill the page."""


@dataclass(frozen=True)
class Absence:
    """Rows that say the same, and an example of them."""

    example: Measurement
    rows: tuple[Measurement, ...]
    others: int = 0
    """In the last line of a list that was cut short: how many more reasons that line stands for."""

    @property
    def names(self) -> list[str]:
        return sorted({of.implementation for of in self.rows})

    @property
    def workloads(self) -> list[str]:
        return sorted({of.workload for of in self.rows}, key=natural)

    @property
    def reason(self) -> str:
        """The example's reason, and the finding that records it, if one does."""
        known = f"known as {self.example.known}: " if self.example.known else ""
        reason = known + (self.example.detail or "no reason given")
        return f"{self.others} other reasons, such as {reason}" if self.others else reason


def absences(rows: Iterable[Measurement]) -> list[Absence]:
    """The rows without a time, grouped by status, finding and reason; the largest group first."""
    alike: dict[tuple[str, str, str], list[Measurement]] = defaultdict(list)
    for of in _ordered(rows):
        if of.status != Status.MEASURED:
            alike[of.status, of.known, pattern(of.detail)].append(of)
    ordered = [alike[key] for key in sorted(alike, key=lambda key: (-len(alike[key]), key))]
    found = [Absence(each[0], tuple(each)) for each in ordered[:MOST_LINES]]
    if rest := ordered[MOST_LINES:]:
        found.append(Absence(rest[0][0], tuple(of for each in rest for of in each), len(rest)))
    return found


def absence_table(rows: Iterable[Measurement]) -> Table:
    """A line for each reason."""
    lines = [
        (status(of.example.status, wording.status(of.example)), _who(of), _where(of), of.reason)
        for of in absences(rows)
    ]
    return table(("no time", "implementation", "where", "reason"), lines)


def note_table(rows: Iterable[Measurement]) -> Table:
    """Remarks on rows that have a time, such as that their memory could not be measured."""
    alike: dict[str, list[Measurement]] = defaultdict(list)
    for of in _ordered(rows):
        if of.status == Status.MEASURED and of.detail:
            alike[pattern(of.detail)].append(of)
    notes = [Absence(each[0], tuple(each)) for each in alike.values()][:MOST_LINES]
    return table(("note", "implementation", "where"), [(of.reason, _who(of), _where(of)) for of in notes])


def _ordered(rows: Iterable[Measurement]) -> list[Measurement]:
    return sorted(rows, key=lambda of: (of.implementation, natural(of.workload), of.key))


def _who(of: Absence) -> Cell:
    return _named(of.names, "implementations")


def _where(of: Absence) -> Cell:
    if of.workloads == [EVERY_CASE]:
        return text(f"every workload on {', '.join(sorted({row.device for row in of.rows}))}")
    return _named(of.workloads, "workloads")


def _named(names: list[str], what: str) -> Cell:
    return said(listed(names, MOST_NAMED if len(names) <= MOST_NAMED else MOST_NAMED - 1, what))
