"""One number per implementation: the geometric mean of its speed-ups; and per workload, who is fastest."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from attnsuite.model.statistics import Comparison, Interval
from attnsuite.report.benchmark import wording
from attnsuite.report.benchmark.timed_tables import BASELINE, Row, TimedTable
from attnsuite.report.cells import NOTHING, Cell, Kind, Span, code, said, text
from attnsuite.report.page import Table, table
from attnsuite.report.units import speed, time_unit

MOST_TIED = 4
"""The most implementations named as indistinguishable from the fastest; of more, the others are counted."""


@dataclass(frozen=True)
class Overall:
    """How one implementation compares with the baseline of its contract over all timed tables of a device.

    `speedup` is the geometric mean over the `compared` tables in which both were timed in the same rounds, of `due`
    tables in all. Its interval has as ends the geometric means of the ends, which holds whatever the errors of
    the tables have in common; it is unbounded where one of them is.
    """

    contract: str
    device: str
    name: str
    speedup: Interval | None
    compared: int
    timed: int
    due: int
    is_baseline: bool = False

    @property
    def words(self) -> str:
        """The mean with its interval: "1.31× faster (1.22–1.40)"."""
        if self.is_baseline:
            return BASELINE
        if self.speedup is None:
            return NOTHING
        return f"{speed(self.speedup.median)} ({wording.ends(self.speedup.low, self.speedup.high)})"


def overall(tables: Iterable[TimedTable]) -> list[Overall]:
    """A line for each contract, device and implementation that has a row in these tables."""
    places: dict[tuple[str, str], list[TimedTable]] = defaultdict(list)
    for each in tables:
        places[each.setting.contract, each.setting.device].append(each)
    return [line for place, of in sorted(places.items()) for line in _of_place(*place, of)]


def _of_place(contract: str, device: str, tables: Sequence[TimedTable]) -> list[Overall]:
    rows: dict[str, list[Row]] = defaultdict(list)
    for row in (row for each in tables for row in each.rows):
        rows[row.name].append(row)
    baselines = {each.baseline for each in tables}
    lines = [_line(contract, device, name, of, len(tables), name in baselines) for name, of in rows.items()]
    return sorted(lines, key=lambda of: (-(of.speedup.median if of.speedup else of.is_baseline), of.name))


def _line(contract: str, device: str, name: str, rows: Sequence[Row], due: int, is_baseline: bool) -> Overall:
    against = [row.against for row in rows if row.against]
    timed = sum(row.time is not None for row in rows)
    return Overall(contract, device, name, geometric_mean(against), len(against), timed, due, is_baseline)


def geometric_mean(of: Sequence[Comparison]) -> Interval | None:
    """The geometric mean of speed-ups and of the ends of their intervals; None of none."""
    if not of:
        return None
    ends = ([each.speedup for each in of], [each.low for each in of], [each.high for each in of])
    return Interval(*(_mean(values) for values in ends))


def _mean(values: Sequence[float]) -> float:
    if min(values) <= 0:
        return 0.0
    return math.exp(sum(map(math.log, values)) / len(values)) if max(values) < math.inf else math.inf


def fastest(of: TimedTable) -> list[Row]:
    """The rows with a time, the fastest first."""
    return sorted(of.measured, key=lambda row: (row.median or 0.0, row.name))


def tied(of: TimedTable) -> list[Row]:
    """The fastest row, and those whose intervals overlap with its own: these cannot be told from it."""
    ordered = fastest(of)
    return [row for row in ordered if row.time and ordered[0].time and row.time.low <= ordered[0].time.high]


def ranking(tables: Iterable[TimedTable]) -> Table:
    """A line for each timed table: who is fastest, who cannot be told from it, and who takes least memory."""
    heads = ("workload", "setting", "fastest", "time", "speed-up", "not told from it", "least memory")
    return table(heads, [_ranked(each) for each in tables if each.measured])


def _ranked(of: TimedTable) -> tuple[object, ...]:
    first, *others = tied(of)
    time = time_unit([first.median or 1.0])
    named = [row.name for row in others]
    more = f" and {len(named) - MOST_TIED} more" if len(named) > MOST_TIED else ""
    return (
        code(of.workload), text(wording.setting(of.setting)), code(first.name),
        text(_between(first, time.of(first.median or 0.0), time.bare)), text(speedup(first)),
        text(", ".join(named[:MOST_TIED]) + more or NOTHING), _frugal(of),
    )  # fmt: skip


def _between(row: Row, median: str, bare: object) -> str:
    low, high = (row.time.low, row.time.high) if row.time else (0.0, math.inf)
    shown = bare if callable(bare) else str
    return f"{median} ({shown(low)}–{shown(high)})" if low > 0 and high < math.inf else median


def speedup(row: Row) -> str:
    """The speed-up with its interval: "2.31× faster (2.20–2.45)"; of the baseline, that it is."""
    if row.against is None:
        return row.verdict or NOTHING
    return f"{speed(row.against.speedup)} ({wording.ends(row.against.low, row.against.high)})"


def _frugal(of: TimedTable) -> Cell:
    """Who takes least memory, as far as it was read."""
    read = [row for row in of.measured if row.shown_peak is not None]
    if not read:
        return text(NOTHING)
    best = min(read, key=lambda row: (row.shown_peak or 0.0, row.name))
    return said(code(best.name), Span(f" {wording.peak(best)}"), kind=Kind.TEXT, value=best.name)
