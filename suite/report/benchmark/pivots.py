"""Implementations × workloads: a median with its verdict, or the peak of memory, in each cell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from suite.records import Run, baseline
from suite.report.benchmark import origin, wording
from suite.report.benchmark.speed import ANOTHER_RUN, Row, Table, names
from suite.report.benchmark.units import NOTHING, time_unit
from suite.report.benchmark.views import Shapes, View
from suite.report.text import code, escaped, table
from suite.store import Recorded

WIDEST = 7
"""So many workloads stand beside each other, because a page is so wide."""

Cell = Callable[[Table, Row], str]


def times(tables: Sequence[Table], heads: Sequence[str]) -> list[str]:
    """Medians and, beside them, how much faster than the baseline that is. The lowest is bold if all are of one run."""
    return _pivot(tables, heads, _time, "time")


def memory(tables: Sequence[Table], heads: Sequence[str]) -> list[str]:
    """The peaks of memory; nothing where no meter told one."""
    told = any(row.of.peak is not None for table in tables for row in table.measured)
    return _pivot(tables, heads, _memory, "peak memory") if told else []


def pages(tables: Sequence[Table], named: Shapes) -> list[list[Table]]:
    """The tables in parts that fit on a page: what a name says after its length belongs together."""
    alike: dict[str, list[Table]] = defaultdict(list)
    for each in tables:
        variant = named[each.subject].short.partition("-")[2] if len(tables) > WIDEST else ""
        alike[variant].append(each)
    parts = ([part[start : start + WIDEST] for start in range(0, len(part), WIDEST)] for part in alike.values())
    return [page for part in parts for page in part]


def headline(view: View, recorded: Recorded, above: Run, short: bool = False) -> list[str]:
    """A few workloads of one contract and device: times, and memory; if `short`, all of them and both in one table.

    `above` is the run of which the page tells already when and with what it was.
    """
    chosen = (tuple(each for each in view.tables if each.measured) if short else view.representatives)[:WIDEST]
    heads = [escaped(each.workload) for each in chosen]
    runs = origin.runs_of(chosen, recorded)
    of, contract = wording.setting(view.setting, runs[-1].machine), wording.contract(view.setting.contract)
    what = f"median time, {'' if short else 'and '}speed against `{baseline(view.setting.contract)}`"
    caption = f"{escaped(', '.join(filter(None, (contract, of))))}: {what}{', and peak memory' if short else ''}."
    if runs != [above]:
        caption += f" {escaped(origin.sentence(runs))}"
    found = _pivot(chosen, heads, _both, "time, peak memory") if short else times(chosen, heads) + memory(chosen, heads)
    return [caption, "", *found]


def _pivot(tables: Sequence[Table], heads: Sequence[str], cell: Cell, what: str) -> list[str]:
    rows = []
    for name in names(tables):
        row = [each.row(name) for each in tables]
        said = [cell(of, found) if found else NOTHING for of, found in zip(tables, row, strict=True)]
        rows.append([code(name), *said])
    return table((what, *heads), rows)


def _time(of: Table, row: Row) -> str:
    if row.median is None:
        return escaped(wording.status(row.of))
    medians = [each.time.median for each in of.measured if each.time]
    time = time_unit(medians).of(row.median)
    alone = any(each.verdict == ANOTHER_RUN for each in of.measured)
    best = not alone and len(medians) > 1 and row.median == min(medians)
    said = f"**{time}**" if best else time
    return ", ".join(filter(None, (said, escaped(wording.verdict(row)))))


def _both(of: Table, row: Row) -> str:
    told = row.time and row.of.peak is not None
    return ", ".join((_time(of, row), _memory(of, row))) if told else _time(of, row)


def _memory(of: Table, row: Row) -> str:
    return wording.peak(row) if row.time else escaped(wording.status(row.of))
