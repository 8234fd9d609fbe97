"""Implementations × workloads: a median with its verdict, or the peak of memory, in each cell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from attnsuite.model import Reason, Run, Status
from attnsuite.report import provenance
from attnsuite.report.benchmark import wording
from attnsuite.report.benchmark.timed_tables import ANOTHER_RUN, Row, TimedTable, names, runs_of
from attnsuite.report.benchmark.views import Material, View
from attnsuite.report.cells import NOTHING, Cell, Kind, Span, code, listed, number, said, status, strong, text
from attnsuite.report.page import Block, Note, Table, note, table
from attnsuite.report.units import time_unit

WIDEST = 7
"""The most workloads side by side in one table: more columns do not fit on a page."""
MOST_NAMED = 12
"""The most implementations that are named as not asked; of more, the others are counted."""


def times(tables: Sequence[TimedTable], heads: Sequence[str]) -> Table:
    """Medians, each with how much faster than the baseline it is. The lowest is bold if all are of one run."""
    return _pivot(tables, heads, _time, "time")


def memory(tables: Sequence[TimedTable], heads: Sequence[str]) -> Table:
    """The peaks of memory; an empty table if no meter read one."""
    told = any(row.of.peak is not None for table in tables for row in table.measured)
    return _pivot(tables if told else [], heads, _memory, "peak memory")


def not_asked(tables: Sequence[TimedTable]) -> Note:
    """A line for those that have no row in `times`, for on all these workloads they are declined or missing."""
    names_of = [name for name in names(tables) if not _says(tables, name)]
    return note("Declined or missing in all of these: ", listed(names_of, MOST_NAMED), ".") if names_of else note()


def _says(tables: Sequence[TimedTable], name: str) -> bool:
    """Whether anything became of an implementation here: a time, or a failure to get one."""
    rows = [row.of for each in tables if (row := each.row(name))]
    return any(of.status not in (Status.DECLINED, Status.MISSING) or of.reason == Reason.TOO_SLOW for of in rows)


def pages(tables: Sequence[TimedTable]) -> list[list[TimedTable]]:
    """The tables in groups that fit side by side, variants such as `e64-causal` kept together."""
    alike: dict[str, list[TimedTable]] = defaultdict(list)
    for each in tables:
        variant = each.short.partition("-")[2] if len(tables) > WIDEST else ""
        alike[variant].append(each)
    parts = ([part[start : start + WIDEST] for start in range(0, len(part), WIDEST)] for part in alike.values())
    return [page for part in parts for page in part]


def headline(view: View, of: Material, above: Run, short: bool = False) -> list[Block]:
    """A few workloads of one contract and device: times, and memory; if `short`, all of them and both in one table.

    `above` is the run whose date and versions stand at the top of the page, and need not be said again.
    """
    chosen = (tuple(each for each in view.tables if each.measured) if short else view.representatives)[:WIDEST]
    heads = [each.workload for each in chosen]
    runs = runs_of(chosen, of.recorded)
    setting, contract = wording.setting(view.setting, runs[-1].machine), wording.contract(view.setting.contract)
    baseline = chosen[0].baseline
    against = (", speed against " if short else ", and speed against ", code(baseline)) if baseline else ()
    caption = note(
        f"{', '.join(filter(None, (contract, setting)))}: median time",
        *against,
        ", and peak memory." if short else ".",
        f" {provenance.sentence(runs)}" if runs != [above] else "",
    )
    shown = (_pivot(chosen, heads, _both, "time, peak memory"),) if short else _times_and_memory(chosen, heads)
    return [caption, *filter(None, (*shown, not_asked(chosen)))]


def _times_and_memory(tables: Sequence[TimedTable], heads: Sequence[str]) -> tuple[Table, Table]:
    return times(tables, heads), memory(tables, heads)


def _pivot(
    tables: Sequence[TimedTable], heads: Sequence[str], told: Callable[[TimedTable, Row], Cell], what: str
) -> Table:
    rows = []
    for name in (name for name in names(tables) if _says(tables, name)):
        found = [(each, each.row(name)) for each in tables]
        rows.append([code(name), *(told(of, row) if row else text(NOTHING) for of, row in found)])
    return table((what, *heads), rows)


def _time(of: TimedTable, row: Row) -> Cell:
    if row.median is None:
        return status(row.of.status, wording.status(row.of))
    medians = [each.time.median for each in of.measured if each.time]
    time = time_unit(medians).of(row.median)
    alone = any(each.verdict == ANOTHER_RUN for each in of.measured)
    best = not alone and len(medians) > 1 and row.median == min(medians)
    verdict = wording.verdict(row)
    spans = (strong(time) if best else Span(time), *([Span(f", {verdict}")] if verdict else []))
    return Cell(spans, row.median, Kind.NUMBER, "s")


def _both(of: TimedTable, row: Row) -> Cell:
    time, told = _time(of, row), row.time and row.of.peak is not None
    return said(time.spans, ", ", _memory(of, row).spans, value=time.value) if told else time


def _memory(of: TimedTable, row: Row) -> Cell:
    return number(row.shown_peak, wording.peak(row), "B") if row.time else status(row.of.status, wording.status(row.of))
