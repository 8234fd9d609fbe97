"""stopwatch.md held against the comparisons in stopwatch.csv: their verdicts, and the shares counted of them."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from suite.records import Machine, Refusal, UsageError
from suite.records.stopwatch import StopwatchAudit, Trial
from suite.report.files import rendered
from suite.report.stopwatch import STOPWATCH, counted
from suite.report.verification.stamped import unlike_stamp
from suite.report.verification.texts import text_of
from suite.statistics import VERDICTS, Interval, judged
from suite.store import Recorded

COMMAND = "attnsuite audit --benchmark"
"""What writes both files."""


@dataclass(frozen=True)
class Watched:
    """What is amiss, how many files were compared, and what was not."""

    refusals: tuple[Refusal, ...] = ()
    compared: int = 0
    not_checked: tuple[str, ...] = ()


def of_stopwatch(folder: Path, recorded: Recorded) -> Watched:
    """Hold both files, where there is one of them, against each other and against the page's stamp."""
    page, table = folder / f"{STOPWATCH}.md", folder / f"{STOPWATCH}.csv"
    if not page.exists() and not table.exists():
        return Watched()
    amiss = list(unlike_stamp(page, (table.name,), COMMAND))
    trials, unread = _trials(table)
    amiss += unread
    machines = {run.machine.name: run.machine for run in recorded.runs.values()}
    if unread or folder.name not in machines:
        why = () if unread else (f"what {page} counts, for no run says what machine it is",)
        return Watched(tuple(amiss), 2, why)
    return Watched((*amiss, *_uncounted(page, trials, machines[folder.name])), 2)


def _uncounted(page: Path, trials: list[Trial], machine: Machine) -> Iterator[Refusal]:
    """Lines of the page that the comparisons do not give."""
    try:
        text = text_of(page)
    except UsageError:
        return  # said already
    due = rendered(STOPWATCH, [counted(StopwatchAudit(trials, ()), machine)])[page.name].split("\n")[2:]
    if text is not None:
        there = set(text.split("\n"))
        yield from (Refusal(str(page), "", f"{STOPWATCH}.csv gives {line!r:.200}, which is not there")
                    for line in due if line.strip() and line not in there)  # fmt: skip


def _trials(table: Path) -> tuple[list[Trial], list[Refusal]]:
    """The comparisons in a table, and what is amiss in it."""
    try:
        text = text_of(table)
        rows = list(csv.reader((text or "").split("\n"), strict=True))
    except (UsageError, csv.Error) as error:
        return [], [Refusal(str(table), "", str(error))]
    heads = [field.name for field in fields(Trial)]
    if not rows or rows[0] != heads:
        return [], [Refusal(str(table), "row 1", f"its columns are not {', '.join(heads)}")]
    trials, amiss = [], []
    for number, row in enumerate(rows[1:], 2):
        try:
            if row:
                trials.append(_trial(row))
        except ValueError as error:
            amiss.append(Refusal(str(table), f"row {number}", str(error)))
    return trials, amiss


def _trial(row: list[str]) -> Trial:
    """A comparison. Raises ValueError for a row that is none, or whose verdict its interval does not give."""
    if len(row) != len(fields(Trial)):
        raise ValueError(f"it has {len(row)} cells, and {len(fields(Trial))} are due")
    table, threads, workload, injected, verdict, speedup, low, high, rounds = row
    of = Trial(
        int(table),
        int(threads),
        workload,
        float(injected),
        verdict,
        float(speedup),
        float(low),
        float(high),
        int(rounds),
    )
    if not 0 <= of.low <= of.speedup <= of.high or not of.speedup < math.inf or of.rounds < 1 or of.threads < 1:
        raise ValueError(f"a speed-up of {speedup} between {low} and {high} in {rounds} rounds is none")
    logs = (math.log(each) if each > 0 else -math.inf for each in (of.speedup, of.low, of.high))
    due = judged(Interval(*logs), of.rounds).verdict
    if verdict != due:
        raise ValueError(f"the verdict is {verdict!r:.20}, and the interval gives {due}, one of {', '.join(VERDICTS)}")
    return of
