"""How far runs of the same code lie apart: one run more of the audit's identical implementations, in new processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from random import Random
from statistics import median

from attnsuite.benchmark.entry import Entry
from attnsuite.benchmark.participant import Participant
from attnsuite.benchmark.stopwatch.audit import Plan, named
from attnsuite.benchmark.stopwatch.tables import BASELINE, CONTRACT, AuditTable
from attnsuite.model.repeated import Repeated

IDENTICAL = 3
"""Implementations identical to the baseline in each table. They share its process, so that more tell little more."""


def one_run(
    started: str, plan: Plan, tell: Callable[[str], None] = lambda line: None, random: Random | None = None
) -> list[Repeated]:
    """Time the plan's workloads on each of its numbers of threads, in one table each, as a benchmark does.

    The baseline and what could be timed beside it give a row each; what could not is told and left out.
    """
    random = random or Random()
    found: list[Repeated] = []
    for threads in sorted(plan.tables):
        for workload in named(plan.workloads):
            table = AuditTable(0, workload, threads, IDENTICAL, slowdowns=())
            table.measure(plan.budget, random)
            rows = list(_rows(started, table))
            tell(f"{workload.name}, threads {threads}: {', '.join(f'{row.ratio:.3f}' for row in rows[1:])}")
            for failure in table.failed:
                tell(f"not timed: {failure}")
            found += rows
    return found


def _rows(started: str, table: AuditTable) -> Iterator[Repeated]:
    entries = {entry.name: entry for entry in table.entries if not entry.failed and entry.seconds}
    base = entries.get(f"{CONTRACT}/{BASELINE}")
    for place, name in enumerate(table.injected):
        if base and name in entries:
            seconds = median(entries[name].seconds)
            yield Repeated(started, table.workload.name, table.threads, place, seconds, _beside(entries[name], base))


def _beside(entry: Entry[Participant], base: Entry[Participant]) -> float:
    """The median over rounds of its time as a multiple of the baseline's."""
    return math.exp(median(math.log(mine / its) for mine, its in zip(entry.seconds, base.seconds, strict=False)))
