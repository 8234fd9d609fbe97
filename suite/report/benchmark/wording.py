"""Measurements in words: verdicts, peaks and settings, and why there is no time."""

from __future__ import annotations

import math

from attnsuite.model import Machine, Measurement, Reason
from attnsuite.report.benchmark.timed_tables import BASELINE, Row, Setting
from attnsuite.report.cells import NOTHING
from attnsuite.report.units import size, speed, speeds

ATTENTION = "attention"
"""The contract that the suite is about. It comes first on each page, and pages do not name it in headings."""

TOO_FEW = "too few rounds"
"""Replaces an interval whose level so few rounds cannot reach."""


def ends(low: float, high: float) -> str:
    """The interval of a speed-up, as `units.speeds` writes it."""
    return speeds(low, high) if low > 0 and math.isfinite(high) else TOO_FEW


def verdict(row: Row) -> str:
    """How the row compares with the baseline: "2.31× faster", "same"; empty if there is nothing to compare."""
    if row.against is None:
        return "" if row.verdict == BASELINE else row.verdict
    return speed(row.against.speedup) if row.verdict in ("faster", "slower") else row.verdict


def reasoned(row: Row) -> str:
    """The same, and why where it is unclear for more than the noise: "unclear: its processes differ"."""
    return ": ".join(filter(None, (verdict(row), row.against.why if row.against else "")))


def status(of: Measurement) -> str:
    """Why there is no time, in one to three words."""
    if of.reason == Reason.TOO_SLOW:
        return "too slow"
    return of.status.replace("_", " ") + (" (known)" if of.known else "")


def peak(row: Row) -> str:
    """The peak of memory, net; "none seen" if the meter reads no more than for a call that allocates nothing."""
    if row.of.peak is None or not math.isfinite(row.of.peak):
        return NOTHING
    return size(row.net_peak) if row.net_peak is not None else "none seen"


def threads(number: int, machine: Machine | None = None) -> str:
    """How many threads an implementation had: "one thread", "both cores"; empty on devices other than the CPU."""
    if number < 2:
        return "one thread" if number else ""
    if machine is None or number not in (machine.cores, machine.threads):
        return f"{number} threads"
    what = "cores" if number == machine.cores else "threads"
    return f"both {what}" if number == 2 else f"all {number} {what}"


def direction(name: str) -> str:
    """What is computed: "forward and backward" for `forward_backward`."""
    return name.replace("_", " and ")


def contract(name: str) -> str:
    """The contract as headings name it: nothing for attention."""
    return "" if name == ATTENTION else name


def setting(of: Setting, machine: Machine | None = None) -> str:
    """How a table was measured: "float32 on cpu, one thread, forward, hot cache"."""
    said = (f"{of.dtype} on {of.device}", threads(of.threads, machine), direction(of.direction), f"{of.cache} cache")
    return ", ".join(filter(None, said))
