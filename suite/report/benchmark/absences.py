"""Why there is no number: what says the same is one line, however often it was said."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from suite.records import EVERY_CASE, Measurement
from suite.report.benchmark import wording
from suite.report.benchmark.speed import natural
from suite.report.conformance.tally import pattern
from suite.report.text import code, escaped, table

NAMED = 4
"""So many implementations or workloads are named in a line."""
MOST = 30
"""So many lines; a submission whose messages all differ would fill the page."""


@dataclass(frozen=True)
class Absence:
    """Rows that say the same, and an example of them."""

    example: Measurement
    rows: tuple[Measurement, ...]
    others: int = 0
    """For the last line of a long list: how many further absences this line stands for."""

    @property
    def names(self) -> list[str]:
        return sorted({of.implementation for of in self.rows})

    @property
    def workloads(self) -> list[str]:
        return sorted({of.workload for of in self.rows}, key=natural)

    @property
    def reason(self) -> str:
        """The example's reason, and the finding that knows it."""
        known = f"known as {self.example.known}: " if self.example.known else ""
        reason = known + (self.example.detail or "no reason given")
        return f"{self.others} other reasons, such as {reason}" if self.others else reason


def absences(rows: Iterable[Measurement]) -> list[Absence]:
    """Of some rows those without a time, grouped by status, finding and reason; the largest first."""
    alike: dict[tuple[str, str, str], list[Measurement]] = defaultdict(list)
    for of in sorted(rows, key=lambda of: (of.implementation, natural(of.workload), of.key)):
        if of.status != "measured":
            alike[of.status, of.known, pattern(of.detail)].append(of)
    ordered = [alike[key] for key in sorted(alike, key=lambda key: (-len(alike[key]), key))]
    found = [Absence(each[0], tuple(each)) for each in ordered[:MOST]]
    if rest := ordered[MOST:]:
        found.append(Absence(rest[0][0], tuple(of for each in rest for of in each), len(rest)))
    return found


def absence_lines(rows: Iterable[Measurement]) -> list[str]:
    """A line for each reason."""
    lines = [
        (escaped(wording.status(of.example)), _named(of.names, "implementations"), _where(of), escaped(of.reason))
        for of in absences(rows)
    ]
    return table(("no time", "implementation", "where", "reason"), lines)


def note_lines(rows: Iterable[Measurement]) -> list[str]:
    """What rows that have a time say all the same: no memory, timed in the suite's own process."""
    said: dict[str, list[Measurement]] = defaultdict(list)
    for of in sorted(rows, key=lambda of: (of.implementation, natural(of.workload), of.key)):
        if of.status == "measured" and of.detail:
            said[pattern(of.detail)].append(of)
    notes = [Absence(each[0], tuple(each)) for each in said.values()][:MOST]
    return table(
        ("note", "implementation", "where"),
        [(escaped(of.reason), _named(of.names, "implementations"), _where(of)) for of in notes],
    )


def _where(of: Absence) -> str:
    if of.workloads == [EVERY_CASE]:
        return escaped(f"every workload on {', '.join(sorted({row.device for row in of.rows}))}")
    return _named(of.workloads, "workloads")


def _named(names: Sequence[str], what: str) -> str:
    if len(names) <= NAMED:
        return ", ".join(map(code, names))
    return f"{', '.join(map(code, names[: NAMED - 1]))} and {len(names) - NAMED + 1} more {what}"
