"""The tables for spreadsheets: benchmark.csv, a row per measurement, and conformance.csv, a row per implementation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any

from attnsuite.model import EVERY_CASE, Measurement
from attnsuite.report.page import Column, Table, table
from attnsuite.report.tally import COUNTS, by_implementation, count, validation
from attnsuite.report.timed import Row, TimedTable
from attnsuite.results import Recorded

Value = Callable[[Row], Any]

ASKED: dict[str, Value] = {
    name: attrgetter(f"measurement.{name}")
    for name in (
        *("implementation", "contract", "workload", "dtype", "device", "threads", "direction", "cache"),
        *("status", "known", "detail"),
    )
}
"""What was timed, and what became of it."""
NUMBERS: dict[str, Value] = {
    "median": attrgetter("median"),
    "low": lambda row: row.time and row.time.low,
    "high": lambda row: row.time and row.time.high,
    "verdict": attrgetter("verdict"),
    "speedup": lambda row: row.comparison and row.comparison.speedup,
    "speedup_low": lambda row: row.comparison and row.comparison.low,
    "speedup_high": lambda row: row.comparison and row.comparison.high,
    "pairs": lambda row: row.comparison and row.comparison.pairs,
    "why": lambda row: row.comparison and row.comparison.why,
    "rounds": lambda row: len(row.measurement.seconds),
    "calls": attrgetter("measurement.calls"),
    "own_clock": attrgetter("measurement.own_clock"),
    "stopped": attrgetter("measurement.stopped"),
    "first_call": attrgetter("measurement.first_call"),
    "warm_up": attrgetter("measurement.warm_up"),
    "tokens_per_second": lambda row: row.rate("tokens"),
    "images_per_second": lambda row: row.rate("images"),
    "flops_per_second": lambda row: row.rate(),
    "flops_per_second_by_convention": lambda row: row.rate("convention"),
    "of_roofline": attrgetter("roofline"),
    "net_peak": attrgetter("reported_peak"),
    "peak": attrgetter("measurement.peak"),
    "joules": attrgetter("joules"),
    "error_ratio": attrgetter("measurement.error_ratio"),
    "kernel": attrgetter("measurement.kernel"),
}
"""Seconds, bytes, FLOPs per second, joules; docs/results.md says what each is."""
GROUPS = ("making", "memory", "work", "ceilings", "relative_error", "telemetry")
"""The fields of a measurement whose entries become columns, `<field>_<entry>`."""


def benchmark_table(recorded: Recorded, tables: Sequence[TimedTable]) -> Table:
    """A row for each measurement of a machine."""
    compared = {
        row.measurement.key: row for each in tables for row in each.rows if row.measurement.workload != EVERY_CASE
    }
    shapes = {each.workload: each.facts for each in tables}
    rows = [compared.get(of.key, Row(run, of)) for run, of in recorded.measured]
    entries = [dict(_entries(row.measurement)) for row in rows]
    named = list(dict.fromkeys(name for group in GROUPS for of in entries for name in of if name.startswith(group)))
    origin: dict[str, Value] = {
        "run": attrgetter("run"),
        "started": lambda row: recorded.runs[row.run].started,
        "shape": lambda row: shapes[row.measurement.workload].shape if row.measurement.workload in shapes else "",
    }
    columns = origin | ASKED | NUMBERS
    cells = [
        [*(value(row) for value in columns.values()), *(of.get(name) for name in named)]
        for row, of in zip(rows, entries, strict=True)
    ]
    return table([Column(key=key) for key in (*columns, *named)], cells)


def _entries(of: Measurement) -> Iterator[tuple[str, object]]:
    """The named numbers of a measurement by their columns; why telemetry lacks one is in the rows alone."""
    for group in GROUPS:
        for name, value in getattr(of, group).items():
            if not name.endswith("_absent"):
                yield f"{group}_{name}", " ".join(map(str, value)) if isinstance(value, list | tuple) else value


def conformance_table(recorded: Recorded) -> Table:
    """A row for each implementation and device: tests by status, and refused bad inputs."""
    heads = ("implementation", "contract", "device", *COUNTS, "bad_inputs_refused", "bad_inputs")
    rows = []
    for (name, device), outcomes in by_implementation(recorded.outcomes).items():
        bad = validation(outcomes)
        rows.append([name, outcomes[0].contract, device, *count(outcomes).numbers, bad.refused, bad.total])
    return table([Column(key=head) for head in heads], rows)
