"""Numbers with their units, as tables and charts write them: three digits, and never an exponent."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from attnsuite.report.page import NOTHING

TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
SIZES = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
"""The units of each quantity with their sizes in the base unit, the largest first."""


@dataclass(frozen=True)
class Unit:
    """A unit, and its size in the base unit: seconds, FLOPs per second, joules, bytes."""

    size: float
    name: str

    def format(self, value: float) -> str:
        """The value with the unit: "1.29 ms"."""
        return f"{self.bare(value)} {self.name}"

    def bare(self, value: float) -> str:
        """The value without the unit, for a column whose heading has it."""
        return significant(value / self.size)


def time_unit(values: Iterable[float]) -> Unit:
    """The largest unit in which the median of these times is at least one."""
    ordered = sorted(values)
    return _fitting(ordered[len(ordered) // 2] if ordered else 1.0, TIMES)


def size(value: float | None) -> str:
    """Bytes in words: "8.06 MiB"."""
    if value is None or not math.isfinite(value):
        return NOTHING
    unit = _fitting(value, SIZES)
    return f"{max(value, 0):.0f} B" if unit.size == 1 else unit.format(value)


def duration(seconds: float) -> str:
    """A long time in minutes or hours: "1 min 52 s"."""
    if not math.isfinite(seconds):
        return NOTHING
    if seconds < 60:
        return f"{significant(seconds, 2)} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def percent(share: float | None) -> str:
    """A share as a percentage with two digits: "61 %", "6.1 %"."""
    if share is None or not math.isfinite(share):
        return NOTHING
    return f"{significant(100 * share, 2)} %"


def times(ratio: float) -> str:
    """A ratio: "4.75×"."""
    return f"{significant(ratio)}×"


def speed(ratio: float) -> str:
    """A speed-up in words: "1.31× faster", "1.15× slower"; "1.00×" where three digits show no difference."""
    words = times(max(ratio, 1 / ratio))
    return words if words == times(1.0) else f"{words} {'faster' if ratio > 1 else 'slower'}"


def significant(value: float, digits: int = 3) -> str:
    """The value to this number of digits, in full: 0.0123, 1.29, 45.0, 1,230."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "NaN"
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, decimals)
    decimals = digits - 1 - math.floor(math.log10(abs(rounded)))  # 9.996 becomes 10.0
    return f"{rounded:,.{max(decimals, 0)}f}".replace("-", "−")


def _fitting(value: float, units: tuple[tuple[float, str], ...]) -> Unit:
    fitting = next((unit for unit in units if value >= unit[0] * (1 - 5e-4)), units[-1])
    return Unit(*fitting)
