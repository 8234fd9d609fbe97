"""A window of samples → telemetry: spreads, throttle reasons and joules, or the reason for having none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

Point = tuple[float, float]
"""Seconds of a monotonic clock, and a value."""

SHORTEST = {"counter": 1.0, "instant": 1.0, "usage": 5.0}
"""The shortest window, in seconds, for which energy is given, by the source of the energy.

Drivers refresh the energy counter and the momentary power every 10 to 100 ms. So a reading at either end may be 0.1 s
old: 10 % of a window of one second, half of one of 0.2 s. `usage` is, since Ampere, an average over the last second. It
counts about half a second from before the window and misses half a second at its end: 10 % of 5 s.
"""

FEWEST_SAMPLES = 10
"""The fewest power samples that are integrated. There are few if the measured code holds Python's lock for long."""

REASONS = {
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}
"""NVML's clocks event reasons by bit. Another bit becomes `unknown_0x…`."""
_IDLE = 0x001
"""The bit of an idle GPU, which is not throttled."""


class Absent(Exception):
    """There is no such number here. The message says why."""


@dataclass
class Window:
    """The readings of a device from `begin` to `end`, and the reasons for missing ones.

    `seen` and `absent` have the names of `FIELDS` as keys; `counter` is the energy counter in joules, read at begin and
    end. `power_from` is `instant` or `usage`.
    """

    begin: float = 0.0
    end: float = 0.0
    seen: dict[str, list[Point]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    power_from: str = ""


def summarised(window: Window) -> dict[str, Any]:
    """The window as `Measurement.telemetry`, in JSON's types; a null has its reason in `<name>_absent`."""
    found: dict[str, Any] = {}
    for name, summary in SUMMARIES.items():
        points = window.seen.get(name, [])
        reason = window.absent.get(name) or ("" if points else "no sample was taken")
        found |= {name: None, f"{name}_absent": reason} if reason else {name: summary([value for _, value in points])}
    if found["power"]:
        found["power_from"] = window.power_from
    samples = max(len(window.seen.get(name, ())) for name in SUMMARIES)
    return {**found, **_joules(window), "seconds": round(window.end - window.begin, 6), "samples": samples}


def throttle(masks: Sequence[float]) -> list[str]:
    """The reasons in words that any of the samples gives."""
    every = 0
    for mask in masks:
        every |= int(mask)
    bits = (1 << position for position in range(every.bit_length()))
    return [REASONS.get(bit, f"unknown_{bit:#x}") for bit in bits if every & bit and bit != _IDLE]


def spread(values: Sequence[float]) -> dict[str, float]:
    """The median, the lowest and the highest value."""
    return {name: round(of(values), 3) for name, of in (("median", median), ("low", min), ("high", max))}


SUMMARIES: Mapping[str, Callable[[Sequence[float]], Any]] = {
    **dict.fromkeys(("sm_clock", "memory_clock", "temperature", "power", "used_memory"), spread),
    "throttle": throttle,
}
"""The readings of a sample, and how those of a window are summed up."""
FIELDS = (*SUMMARIES, "counter")
"""All readings; the energy counter is read at the ends of a window only."""


def _joules(window: Window) -> dict[str, Any]:
    """The energy of the window: by the counter if possible, else by the power samples; `joules_from` says which."""
    reasons = []
    for source, joules in (("counter", _counted), ("power samples", _integrated)):
        try:
            return {"joules": round(joules(window), 3), "joules_from": source}
        except Absent as absent:
            reasons.append(str(absent))
    return {"joules": None, "joules_absent": "; ".join(dict.fromkeys(reasons))}


def _counted(window: Window) -> float:
    points = _points(window, "counter")
    _long_enough(window, "counter")
    before, after = points[0][1], points[-1][1]
    if after <= before:  # the driver was reloaded, or its counter stands still: every GPU takes some energy
        raise Absent(f"the energy counter went from {before:g} to {after:g} J")
    return after - before


def _integrated(window: Window) -> float:
    """The trapezoid rule over the power samples; the first and the last hold until the ends of the window."""
    points = _points(window, "power")
    _long_enough(window, window.power_from)
    if len(points) < FEWEST_SAMPLES:
        raise Absent(f"{len(points)} power samples are too few: energy needs {FEWEST_SAMPLES}")
    points = [(window.begin, points[0][1]), *points, (window.end, points[-1][1])]
    return sum((late - early) * (one + other) / 2 for (early, one), (late, other) in pairwise(points))


def _points(window: Window, name: str) -> list[Point]:
    points = window.seen.get(name, [])
    if name in window.absent or not points:
        raise Absent(window.absent.get(name, "no sample was taken"))
    return points


def _long_enough(window: Window, source: str) -> None:
    seconds = window.end - window.begin
    if seconds < SHORTEST[source]:
        raise Absent(f"{seconds:.3g} s are too short: energy needs {SHORTEST[source]:g} s")
