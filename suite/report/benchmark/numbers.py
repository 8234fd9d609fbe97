"""Every number of a measurement: the long tables of benchmark.md, and the rows of benchmark.csv."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from suite.records import EVERY_CASE, Measurement
from suite.report.benchmark import wording
from suite.report.benchmark.speed import Row, Table
from suite.report.benchmark.units import NOTHING, Unit, energy, percent, rate_unit, significant, size, time_unit, times
from suite.report.benchmark.views import Shapes
from suite.report.text import Row as CsvRow
from suite.report.text import code, escaped, table
from suite.store import Recorded

LONGEST_KERNEL = 60
"""Characters of the operators that ran; the CSV has all."""


def long_table(of: Table) -> list[str]:
    """A row for each implementation that has a time, with all that is known of it; empty columns are left out."""
    time = time_unit(row.time.median for row in of.measured if row.time)
    rate = rate_unit(found for row in of.measured if (found := row.rate()))
    columns: dict[str, Callable[[Row], str]] = {
        "time": lambda row: time.of(row.time.median) if row.time else "",
        "99 % interval": lambda row: _between(row.time.low, row.time.high, time) if row.time else "",
        "speed-up": _speedup,
        "rounds": lambda row: str(len(row.of.seconds)),
        "first call": lambda row: _duration(row.of.first_call),
        "made in": lambda row: _duration(row.of.making.get("factory")),
        "export": lambda row: _duration(row.of.making.get("export")),
        "session start": lambda row: _duration(row.of.making.get("session")),
        "its file": lambda row: _size(row.of.making.get("file")),
        "tokens/s": lambda row: _per_second(row.rate("tokens")),
        "images/s": lambda row: _per_second(row.rate("images")),
        rate.name: lambda row: _rate(row.rate(), rate),
        f"{rate.name} as FlashAttention counts": lambda row: _rate(row.rate("convention"), rate),
        "of roofline": lambda row: percent(row.roofline) if row.roofline else "",
        "peak memory": lambda row: "" if row.of.peak is None else wording.peak(row),
        "its output": lambda row: _size(row.of.memory.get("output")),
        "retained": lambda row: _size(row.of.memory.get("retained")),
        "by NVML": lambda row: _size(row.of.memory.get("driver")),
        "energy": lambda row: "" if row.joules is None else energy(row.joules),
        "error in bounds": lambda row: "" if row.of.error_ratio is None else significant(row.of.error_ratio, 2),
        "what ran": lambda row: escaped(row.of.kernel, LONGEST_KERNEL),
    }
    cells = {head: [column(row) for row in of.measured] for head, column in columns.items()}
    if all(row.rate() == row.rate("convention") for row in of.measured):
        del cells[f"{rate.name} as FlashAttention counts"]
    kept = {head: column for head, column in cells.items() if any(column)}
    names = [code(row.name) for row in of.measured]
    rows = zip(names, *([cell or NOTHING for cell in column] for column in kept.values()), strict=True)
    return table(("implementation", *kept), rows)


def numbers(recorded: Recorded, tables: Sequence[Table], named: Shapes) -> tuple[list[str], list[CsvRow]]:
    """The header and a row for each measurement, for the CSV: seconds, bytes, FLOPs per second, joules."""
    rows = {row.of.key: row for of in tables for row in of.rows if row.of.workload != EVERY_CASE}
    flat = [_flat(identity, rows.get(of.key, Row(identity, of)), recorded, named) for identity, of in recorded.measured]
    header = list(dict.fromkeys(name for row in flat for name in row))
    return header, [[row.get(name) for name in header] for row in flat]


def _between(low: float, high: float, unit: Unit) -> str:
    return "too few rounds" if low <= 0 else f"{unit.bare(low)}–{unit.of(high)}"


def _speedup(row: Row) -> str:
    if row.against is None:
        return escaped(row.verdict)
    low, high = row.against.low, row.against.high
    bounds = f"{significant(low)}–{significant(high)}" if low > 0 else "too few rounds"
    verdict = wording.verdict(row) if row.verdict == "faster" else row.verdict
    said = verdict if row.verdict == "faster" else f"{times(row.against.speedup)}, {row.verdict}"
    return f"{escaped(said)} ({bounds})"


def _rate(value: float | None, unit: Unit) -> str:
    return "" if value is None else unit.bare(value)


def _duration(seconds: float | None) -> str:
    return "" if seconds is None else time_unit([seconds]).of(seconds)


def _per_second(value: float | None) -> str:
    return "" if value is None else significant(value)


def _size(value: float | None) -> str:
    return "" if value is None else size(value)


def _flat(identity: str, row: Row, recorded: Recorded, named: Shapes) -> dict[str, object]:
    of, shape = row.of, named[row.of.contract, row.of.workload]
    origin = {"run": identity, "started": recorded.runs[identity].started}
    asked = {name: getattr(of, name) for name in _ASKED}
    about: dict[str, object] = {"group": shape.group, "shape": shape.words, "length": shape.length}
    time = {name: getattr(row.time, name, None) for name in ("median", "low", "high")}
    against = {name: getattr(row.against, field, None) for name, field in _AGAINST.items()}
    return {**origin, **asked, **about, **time, "verdict": row.verdict, **against, **_derived(row), **_numbers(of)}


_ASKED = (
    "implementation", "contract", "workload", "dtype", "device", "threads", "direction", "cache", "status", "known",
    "detail",
)  # fmt: skip
_AGAINST = {"speedup": "speedup", "speedup_low": "low", "speedup_high": "high", "pairs": "pairs"}


def _derived(row: Row) -> dict[str, object]:
    of = row.of
    return {
        "flops_per_second": row.rate(),
        "flops_per_second_by_convention": row.rate("convention"),
        "of_roofline": row.roofline,
        "peak": of.peak,
        "joules": row.joules,
        "error_ratio": of.error_ratio,
        "rounds": len(of.seconds),
        "calls": of.calls,
        "stopped": of.stopped,
        "first_call": of.first_call,
        "warm_up": of.warm_up,
        "kernel": of.kernel,
    }


def _numbers(of: Measurement) -> dict[str, object]:
    """What is kept by name: a column for each. What telemetry says about what it does not say is in benchmark.jsonl."""
    groups = {
        "making": of.making,
        "memory": of.memory,
        "work": of.work,
        "ceiling": of.ceilings,
        "telemetry": of.telemetry,
    }
    return {
        f"{group}_{name}": value
        for group, values in groups.items()
        for name, value in _leaves(values)
        if not name.endswith("_absent") and f"{group}_{name}" != "telemetry_joules"
    }


def _leaves(values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in sorted(values.items()):
        if isinstance(value, Mapping):
            yield from ((f"{name}_{inner}", each) for inner, each in sorted(value.items()))
        elif isinstance(value, list | tuple):
            yield name, " ".join(map(str, value))
        else:
            yield name, value
