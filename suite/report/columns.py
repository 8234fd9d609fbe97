"""Tables for spreadsheets: benchmark.csv has a row per measurement, conformance.csv a row per implementation."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

from attnsuite.model import EVERY_CASE, Measurement
from attnsuite.report.page import LONGEST_CODE, plain
from attnsuite.report.tally import COUNTS, by_implementation, count, validation
from attnsuite.report.timed import Row, TimedTable
from attnsuite.results import MachineRecord

Quantity = Callable[[Row], Any]

KEYS: dict[str, Quantity] = {
    name: attrgetter(f"measurement.{name}")
    for name in (
        *("implementation", "contract", "workload", "dtype", "device", "threads", "direction", "cache"),
        *("status", "known", "detail"),
    )
}
"""The key of a measurement, its status and its known bug."""
NUMBERS: dict[str, Quantity] = {
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
    "bytes_per_second": lambda row: row.rate("bytes"),
    "of_bandwidth": attrgetter("of_bandwidth"),
    "net_peak": attrgetter("reported_peak"),
    "peak": attrgetter("measurement.peak"),
    "joules": attrgetter("joules"),
    "error_ratio": attrgetter("measurement.error_ratio"),
    "kernel": attrgetter("measurement.kernel"),
}
"""Seconds, bytes, FLOPs per second, joules; docs/results.md describes each column."""
GROUPS = ("making", "memory", "work", "ceilings", "relative_error", "telemetry")
"""The fields of a measurement whose entries become columns, `<field>_<entry>`."""


def benchmark_csv(recorded: MachineRecord, tables: Sequence[TimedTable]) -> str:
    """A row per measurement of a machine."""
    compared = {row.measurement.key: row for table in tables for row in table.rows}
    shapes = {table.workload: table.facts.shape for table in tables}
    rows = [
        Row(run, measurement) if measurement.workload == EVERY_CASE else compared[measurement.key]
        for run, measurement in recorded.measured
    ]
    groups = [dict(_entries(row.measurement)) for row in rows]
    grouped = list(
        dict.fromkeys(name for group in GROUPS for names in groups for name in names if name.startswith(group))
    )
    origin: dict[str, Quantity] = {
        "run": attrgetter("run"),
        "started": lambda row: recorded.runs[row.run].started,
        "shape": lambda row: shapes.get(row.measurement.workload, ""),
    }
    columns = origin | KEYS | NUMBERS
    cells = [
        [*(value(row) for value in columns.values()), *(entries.get(name) for name in grouped)]
        for row, entries in zip(rows, groups, strict=True)
    ]
    return csv_of((*columns, *grouped), cells)


def _entries(measurement: Measurement) -> Iterator[tuple[str, object]]:
    """The grouped numbers of a measurement by column, without the reasons of missing telemetry."""
    for group in GROUPS:
        for name, value in getattr(measurement, group).items():
            if not name.endswith("_absent"):
                yield f"{group}_{name}", " ".join(map(str, value)) if isinstance(value, list | tuple) else value


def conformance_csv(recorded: MachineRecord) -> str:
    """A row per implementation and device: tests by status, and refused bad inputs."""
    heads = ("implementation", "contract", "device", *COUNTS, "bad_inputs_refused", "bad_inputs")
    rows = []
    for (name, device), outcomes in by_implementation(recorded.outcomes).items():
        bad = validation(outcomes)
        rows.append([name, outcomes[0].contract, device, *count(outcomes).numbers, bad.refused, bad.total])
    return csv_of(heads, rows)


def csv_of(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """The text of a CSV file."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(map(_harmless, row) for row in rows)
    return written.getvalue()


def _harmless(value: object) -> object:
    """Numbers unchanged; a text that a spreadsheet would read as a formula gets a leading quote."""
    if not isinstance(value, str):
        return value
    words = plain(value, LONGEST_CODE)
    return f"'{words}" if words.startswith(("=", "+", "-", "@")) else words
