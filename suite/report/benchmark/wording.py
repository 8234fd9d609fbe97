"""Measurements in words: what a cell says where there is a number, and where there is none."""

from __future__ import annotations

import math

from suite.records import Machine, Measurement, Reason
from suite.report.benchmark.speed import BASELINE, Row, Setting
from suite.report.cells import NOTHING
from suite.report.units import size, times

ATTENTION = "attention"
"""The contract that the suite is about: first on each page, and not named where no other is."""
DIRECTIONS = {"forward": "forward", "backward": "backward", "forward_backward": "forward and backward"}


def verdict(row: Row) -> str:
    """Who is faster, the baseline or this: "2.31× faster", "same"; empty where nothing is compared."""
    if row.against is None:
        return "" if row.verdict == BASELINE else row.verdict
    if row.verdict == "faster":
        return f"{times(row.against.speedup)} faster"
    if row.verdict == "slower":
        return f"{times(1 / row.against.speedup)} slower"
    return row.verdict


def status(of: Measurement) -> str:
    """Why there is no time, in one to three words."""
    if of.reason == Reason.TOO_SLOW:
        return "too slow"
    return of.status.replace("_", " ") + (" (known)" if of.known else "")


def peak(row: Row) -> str:
    """The peak of memory, or that the meter saw none: no more than for a call that allocates nothing."""
    if row.of.peak is None or not math.isfinite(row.of.peak):
        return NOTHING
    return size(row.of.peak) if row.net_peak is not None else "none seen"


def threads(number: int, machine: Machine | None = None) -> str:
    """How many threads an implementation had; empty on devices other than the CPU."""
    if number < 2:
        return "one thread" if number else ""
    if machine is None or number not in (machine.cores, machine.threads):
        return f"{number} threads"
    what = "cores" if number == machine.cores else "threads"
    return f"both {what}" if number == 2 else f"all {number} {what}"


def direction(name: str) -> str:
    """What is computed."""
    return DIRECTIONS.get(name, name)


def contract(name: str) -> str:
    """The contract, where it has to be named: not for attention."""
    return "" if name == ATTENTION else name


def setting(of: Setting, machine: Machine | None = None) -> str:
    """How a table was measured: "float32 on cpu, one thread, forward, hot cache"."""
    said = (f"{of.dtype} on {of.device}", threads(of.threads, machine), direction(of.direction), f"{of.cache} cache")
    return ", ".join(filter(None, said))
