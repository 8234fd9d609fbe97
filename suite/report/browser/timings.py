"""Timed tables → data of the page: medians, intervals, verdicts, memory, and the samples in the order of rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attnsuite.model import EVERY_CASE, SHAPE, Status, command_line
from attnsuite.report.benchmark import wording
from attnsuite.report.benchmark.columns import between, error, unit_of
from attnsuite.report.benchmark.timed_tables import Row, TimedTable
from attnsuite.report.browser.naming import rounded
from attnsuite.report.browser.outcomes import Names
from attnsuite.report.units import Unit, energy, percent, speed

DIGITS = 4
"""Digits of the numbers that the page draws and sorts by; `words` are rounded once, here, from all digits."""
EXACT = 17
"""Digits of speed-ups, which the page divides by each other."""
MICROSECOND = 1e-6
"""The unit of samples on the page, in seconds: it keeps them short."""


def timed(
    tables: Sequence[TimedTable], runs: list[str], names: Names, again: Mapping[str, Sequence[str]]
) -> list[dict[str, Any]]:
    """An object for each timed table, with its rows, the fastest first."""
    return [
        {
            "w": of.workload, "shape": of.facts.shape, "why": of.facts.why, "contract": of.setting.contract,
            "dtype": of.setting.dtype, "device": of.setting.device, "threads": of.setting.threads,
            "direction": of.setting.direction, "cache": of.setting.cache, "baseline": of.baseline,
            "rows": [_row(row, unit, runs, names, again) for row in sorted(of.rows, key=_order)],
        }
        for of, unit in ((each, unit_of(each)) for each in tables)
    ]  # fmt: skip


def _order(row: Row) -> tuple[object, ...]:
    return row.median is None, row.median or 0.0, row.name


def _row(row: Row, unit: Unit, runs: list[str], names: Names, again: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    found = {
        "i": names.implementations.place(row.of.implementation),
        "r": runs.index(row.run),
        "status": "" if row.of.status == Status.MEASURED else wording.status(row.of),
        "said": names.details.place(row.of.detail) if row.of.detail else None,
        "command": "" if row.of.workload == EVERY_CASE else command(row, again),
        **(_numbers(row) | {"words": _words(row, unit)} if row.time else {}),
    }
    return {name: value for name, value in found.items() if value is not None and value != ""}


def _numbers(row: Row) -> dict[str, Any]:
    time, against = row.time, row.against
    return {
        "t": [rounded(each, DIGITS) for each in (time.median, time.low, time.high)] if time else None,
        "u": [rounded(each, EXACT) for each in (against.speedup, against.low, against.high)] if against else None,
        "verdict": ": ".join(filter(None, (row.verdict, against.why if against else ""))),
        "peak": rounded(row.shown_peak, DIGITS),
        "roof": rounded(row.roofline, 3),
        "joules": rounded(row.joules, DIGITS),
        "error": rounded(row.of.error_ratio, 3),
        "kernel": row.of.kernel,
        "calls": row.of.calls,
        "x": [rounded(each / MICROSECOND, DIGITS) for each in row.of.seconds],
    }


def _words(row: Row, unit: Unit) -> dict[str, str]:
    """The numbers as the table in Markdown writes them; those that the row lacks are left out."""
    found = {
        "time": unit.of(row.median or 0.0),
        "between": between(row, unit),
        "speedup": speed(row.against.speedup) if row.against else "",
        "ends": wording.ends(row.against.low, row.against.high) if row.against else "",
        "memory": wording.peak(row) if row.shown_peak is not None else "",
        "roofline": percent(row.roofline) if row.roofline else "",
        "energy": energy(row.joules) if row.joules is not None else "",
        "error": error(row.of.error_ratio) if row.of.error_ratio is not None else "",
    }
    return {name: words for name, words in found.items() if words}


def command(row: Row, again: Mapping[str, Sequence[str]]) -> str:
    """The command that times the row again, beside the baseline of its table."""
    of = row.of
    words = ["attnsuite", "bench", *(again.get(of.implementation) or [of.implementation])]
    typed = of.workload.startswith(SHAPE)
    words += ["--shape", of.workload.removeprefix(SHAPE)] if typed else ["--workload", of.workload]
    words += ["--dtype", of.dtype]
    words += ["--device", of.device] if of.device != "cpu" else []
    words += ["--threads", str(of.threads)] if of.threads > 1 else []
    words += ["--backward"] if "backward" in of.direction else ["--step"] if of.direction == "step" else []
    words += ["--cache", of.cache] if of.cache != ("hot" if of.device == "cpu" else "cold") else []
    return command_line(words)
