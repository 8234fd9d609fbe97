"""Every number of a measurement: a column of a long table on the page, a column of benchmark.csv, or both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from attnsuite.model import EVERY_CASE, Measurement, WorkloadFacts
from attnsuite.model.statistics import LEVEL
from attnsuite.report.benchmark import wording
from attnsuite.report.benchmark.timed_tables import Row, TimedTable, facts_of
from attnsuite.report.benchmark.views import Material
from attnsuite.report.cells import Cell, Kind, code, number, text
from attnsuite.report.page import Column, Table, table
from attnsuite.report.units import Unit, energy, percent, rate_unit, significant, size, speed, time_unit

LONGEST_KERNEL = 60
"""Characters of the names of operators on the page: about the first two. The CSV has all of them."""


@dataclass(frozen=True)
class Figure:
    """A number of a row: the title and the key of its column, and how it is had from the row."""

    title: str | None
    key: str
    of: Callable[[Row], object]


def long_table(of: TimedTable) -> Table:
    """A row for each implementation that has a time, with every number of it; columns without any are left out."""
    shown = [figure for figure in _figures(of.measured) if figure.title is not None]
    return _table([Figure("implementation", "", lambda row: code(row.name)), *shown], of.measured).filled


def numbers(of: Material) -> Table:
    """A row for each measurement, for programs: seconds, bytes, FLOPs per second, joules."""
    compared = {row.of.key: row for table in of.tables for row in table.rows if row.of.workload != EVERY_CASE}
    rows = [compared.get(each.key, Row(run, each)) for run, each in of.recorded.measured]
    keyed = [figure for figure in (*_asked(of), *_figures(rows)) if figure.key]
    there = {figure.key for figure in keyed}
    kept = {row.of.key: _leaves(row.of) for row in rows}
    named = sorted({name for leaves in kept.values() for name in leaves} - there, key=_in_order)

    def by_name(name: str) -> Figure:
        return Figure(None, name, lambda row: kept[row.of.key].get(name))

    return _table([*keyed, *map(by_name, named)], rows)


def _table(figures: Sequence[Figure], rows: Sequence[Row]) -> Table:
    columns = [Column(figure.title, figure.key) for figure in figures]
    return table(columns, [[figure.of(row) for figure in figures] for row in rows])


def _asked(material: Material) -> Iterator[Figure]:
    """What was asked, and in which run."""
    runs = material.recorded.runs

    def facts(row: Row) -> WorkloadFacts:
        return facts_of(material.workloads, (row.of.contract, row.of.workload))

    yield Figure(None, "run", lambda row: row.run)
    yield Figure(None, "started", lambda row: runs[row.run].started)
    for name in (
        "implementation", "contract", "workload", "dtype", "device", "threads", "direction", "cache", "status", "known",
        "detail",
    ):  # fmt: skip
        yield Figure(None, name, attrgetter(f"of.{name}"))
    yield Figure(None, "group", lambda row: facts(row).group)
    yield Figure(None, "shape", lambda row: facts(row).shape)
    yield Figure(None, "length", lambda row: facts(row).length or None)


def _figures(rows: Sequence[Row]) -> Iterator[Figure]:
    """The numbers, in units that suit these rows."""
    time = time_unit(row.time.median for row in rows if row.time)
    rate = rate_unit(found for row in rows if (found := row.rate()))
    again = any(row.rate() != row.rate("convention") for row in rows)
    yield Figure("time", "median", lambda row: number(row.median, (row.time and time.of(row.time.median)) or "", "s"))
    yield Figure(f"{100 * LEVEL:g} % interval", "", lambda row: text(between(row, time)))
    yield Figure(None, "low", lambda row: row.time and row.time.low)
    yield Figure(None, "high", lambda row: row.time and row.time.high)
    yield Figure("speed-up", "verdict", lambda row: Cell(text(_speedup(row)).spans, row.verdict, Kind.VERDICT))
    yield Figure(None, "speedup", lambda row: row.against and row.against.speedup)
    yield Figure(None, "speedup_low", lambda row: row.against and row.against.low)
    yield Figure(None, "speedup_high", lambda row: row.against and row.against.high)
    yield Figure(None, "pairs", lambda row: row.against and row.against.pairs)
    yield Figure(None, "autocorrelation", lambda row: row.against and round(row.against.autocorrelation, 3))
    yield Figure(None, "process_spread", lambda row: row.against and _rounded(row.against.process_spread))
    yield Figure(None, "why", lambda row: row.against and row.against.why)
    yield Figure("rounds", "rounds", lambda row: len(row.of.seconds))
    yield Figure(None, "calls", lambda row: row.of.calls)
    yield Figure("own clock / claimed", "own_clock", lambda row: _said(row.of.own_clock, lambda times: f"{times:.2f}"))
    yield Figure(None, "stopped", lambda row: row.of.stopped)
    yield Figure("first call", "first_call", lambda row: _duration(row.of.first_call))
    yield Figure(None, "warm_up", lambda row: row.of.warm_up)
    yield Figure("made in", "making_factory", lambda row: _duration(row.of.making.get("factory")))
    yield Figure("export", "making_export", lambda row: _duration(row.of.making.get("export")))
    yield Figure("session start", "making_session", lambda row: _duration(row.of.making.get("session")))
    yield Figure("its file", "making_file", lambda row: _size(row.of.making.get("file")))
    yield Figure("tokens/s", "tokens_per_second", lambda row: _said(row.rate("tokens"), significant))
    yield Figure("images/s", "images_per_second", lambda row: _said(row.rate("images"), significant))
    yield Figure(rate.name, "flops_per_second", lambda row: _said(row.rate(), rate.bare))
    yield Figure(
        f"{rate.name} as FlashAttention counts" if again else None,
        "flops_per_second_by_convention",
        lambda row: _said(row.rate("convention"), rate.bare),
    )
    yield Figure("of roofline", "of_roofline", lambda row: _said(row.roofline or None, percent))
    yield Figure("peak memory", "net_peak", lambda row: _said(row.shown_peak, lambda _: wording.peak(row), "B"))
    yield Figure(None, "peak", lambda row: row.of.peak)
    yield Figure("its output", "memory_output", lambda row: _size(row.of.memory.get("output")))
    yield Figure("retained", "memory_retained", lambda row: _size(row.of.memory.get("retained")))
    yield Figure("by NVML", "memory_driver", lambda row: _size(row.of.memory.get("driver")))
    yield Figure("energy", "joules", lambda row: _said(row.joules, energy, "J"))
    yield Figure("error in bounds", "error_ratio", lambda row: _said(row.of.error_ratio, error))
    yield Figure("largest error", "relative_error_largest", lambda row: _share(row.of.relative_error.get("largest")))
    yield Figure("error (rms)", "relative_error_rms", lambda row: _share(row.of.relative_error.get("rms")))
    yield Figure("what ran", "kernel", lambda row: Cell(text(row.of.kernel, LONGEST_KERNEL).spans, row.of.kernel))


def unit_of(table: TimedTable) -> Unit:
    """The unit of the times of a table."""
    return time_unit(row.time.median for row in table.rows if row.time)


def error(ratio: float) -> str:
    """An error in units of its bound."""
    return significant(ratio, 2)


def between(row: Row, unit: Unit) -> str:
    """The interval of a time: "11.9–12.4 ms"."""
    if not row.time:
        return ""
    return wording.TOO_FEW if row.time.low <= 0 else f"{unit.bare(row.time.low)}–{unit.of(row.time.high)}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 5)


def _speedup(row: Row) -> str:
    if row.against is None:
        return row.verdict
    compared, verdict = speed(row.against.speedup), wording.reasoned(row)
    words = compared if verdict == compared else f"{compared}, {verdict}"
    return f"{words} ({wording.ends(row.against.low, row.against.high)})"


def _said(value: float | None, words: Callable[[float], str], unit: str = "") -> Cell:
    return number(value, "" if value is None else words(value), unit)


def _duration(seconds: float | None) -> Cell:
    return _said(seconds, lambda of: time_unit([of]).of(of), "s")


def _share(value: float | None) -> Cell:
    return _said(value, lambda of: f"{100 * of:.2g} %")


def _size(value: float | None) -> Cell:
    return _said(value, size, "B")


# Numbers that some measurements have and others have not, each kept under a name

_GROUPS = ("making", "memory", "work", "ceiling", "telemetry")
"""The groups of such numbers, in the order of the CSV; a column is called `<group>_<name>`."""


def _leaves(of: Measurement) -> dict[str, object]:
    """Every named number of a measurement, by its column. Why telemetry lacks one is in benchmark.jsonl."""
    groups = zip(_GROUPS, (of.making, of.memory, of.work, of.ceilings, of.telemetry), strict=True)
    return {
        f"{group}_{name}": value
        for group, values in groups
        for name, value in _flat(values)
        if not name.endswith("_absent") and f"{group}_{name}" != "telemetry_joules"
    }


def _in_order(column: str) -> tuple[int, str]:
    return _GROUPS.index(column.partition("_")[0]), column


def _flat(values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}_{inner}", each) for inner, each in _flat(value))
        elif isinstance(value, list | tuple):
            yield name, " ".join(map(str, value))
        else:
            yield name, value
