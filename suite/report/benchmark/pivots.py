"""Implementations × workloads: a median with its verdict, or the peak of memory, in each cell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from suite.records import Run
from suite.report import provenance
from suite.report.benchmark import wording
from suite.report.benchmark.timed_tables import ANOTHER_RUN, Row, TimedTable, names, runs_of
from suite.report.benchmark.views import Material, View
from suite.report.cells import NOTHING, Cell, Kind, Span, code, number, said, status, strong, text
from suite.report.page import Block, Table, note, table
from suite.report.units import time_unit

WIDEST = 7
"""The most workloads side by side in one table: more columns do not fit on a page."""


def times(tables: Sequence[TimedTable], heads: Sequence[str]) -> Table:
    """Medians, each with how much faster than the baseline it is. The lowest is bold if all are of one run."""
    return _pivot(tables, heads, _time, "time")


def memory(tables: Sequence[TimedTable], heads: Sequence[str]) -> Table:
    """The peaks of memory; an empty table if no meter read one."""
    told = any(row.of.peak is not None for table in tables for row in table.measured)
    return _pivot(tables if told else [], heads, _memory, "peak memory")


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
    if short:
        return [caption, _pivot(chosen, heads, _both, "time, peak memory")]
    return [caption, times(chosen, heads), memory(chosen, heads)]


def _pivot(
    tables: Sequence[TimedTable], heads: Sequence[str], told: Callable[[TimedTable, Row], Cell], what: str
) -> Table:
    rows = []
    for name in names(tables):
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
