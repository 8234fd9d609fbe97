"""Implementations × workloads: a median with its verdict, or the peak of memory, in each cell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from suite.records import Run
from suite.report import origin
from suite.report.benchmark import wording
from suite.report.benchmark.speed import ANOTHER_RUN, Row, Table, names, runs_of
from suite.report.benchmark.views import Material, View, Workloads
from suite.report.cells import NOTHING, Cell, Kind, Span, code, number, said, status, strong, text
from suite.report.page import Block, note, table
from suite.report.page import Table as PageTable
from suite.report.units import time_unit

WIDEST = 7
"""The most workloads beside each other in a table: more do not fit on a page."""

Told = Callable[[Table, Row], Cell]


def times(tables: Sequence[Table], heads: Sequence[str]) -> PageTable:
    """Medians and, beside them, how much faster than the baseline that is. The lowest is bold if all are of one run."""
    return _pivot(tables, heads, _time, "time")


def memory(tables: Sequence[Table], heads: Sequence[str]) -> PageTable:
    """The peaks of memory; no row where no meter told one."""
    told = any(row.of.peak is not None for table in tables for row in table.measured)
    return _pivot(tables if told else [], heads, _memory, "peak memory")


def pages(tables: Sequence[Table], named: Workloads) -> list[list[Table]]:
    """The tables in parts that fit on a page: what a name says after its length belongs together."""
    alike: dict[str, list[Table]] = defaultdict(list)
    for each in tables:
        variant = named.short(each.subject).partition("-")[2] if len(tables) > WIDEST else ""
        alike[variant].append(each)
    parts = ([part[start : start + WIDEST] for start in range(0, len(part), WIDEST)] for part in alike.values())
    return [page for part in parts for page in part]


def headline(view: View, of: Material, above: Run, short: bool = False) -> list[Block]:
    """A few workloads of one contract and device: times, and memory; if `short`, all of them and both in one table.

    `above` is the run of which the page tells already when and with what it was.
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
        f" {origin.sentence(runs)}" if runs != [above] else "",
    )
    if short:
        return [caption, _pivot(chosen, heads, _both, "time, peak memory")]
    return [caption, times(chosen, heads), memory(chosen, heads)]


def _pivot(tables: Sequence[Table], heads: Sequence[str], told: Told, what: str) -> PageTable:
    rows = []
    for name in names(tables):
        found = [(each, each.row(name)) for each in tables]
        rows.append([code(name), *(told(of, row) if row else text(NOTHING) for of, row in found)])
    return table((what, *heads), rows)


def _time(of: Table, row: Row) -> Cell:
    if row.median is None:
        return status(row.of.status, wording.status(row.of))
    medians = [each.time.median for each in of.measured if each.time]
    time = time_unit(medians).of(row.median)
    alone = any(each.verdict == ANOTHER_RUN for each in of.measured)
    best = not alone and len(medians) > 1 and row.median == min(medians)
    verdict = wording.verdict(row)
    spans = (strong(time) if best else Span(time), *([Span(f", {verdict}")] if verdict else []))
    return Cell(spans, row.median, Kind.NUMBER, "s")


def _both(of: Table, row: Row) -> Cell:
    time, told = _time(of, row), row.time and row.of.peak is not None
    return said(time.spans, ", ", _memory(of, row).spans, value=time.value) if told else time


def _memory(of: Table, row: Row) -> Cell:
    return number(row.of.peak, wording.peak(row), "B") if row.time else status(row.of.status, wording.status(row.of))
