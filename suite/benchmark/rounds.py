"""The number of rounds: the fewest, how often to check whether they suffice, and what suffices."""

from __future__ import annotations

import math

from attnsuite.model.faster import MARGIN
from attnsuite.model.statistics import LEVEL

MIN_ROUNDS = 12
"""Rounds at least, each one sample of every implementation: the fewest whose interval excludes the fastest and the
slowest one."""
CHECK_EVERY = 4
"""Rounds between two checks whether intervals are narrow: each check may stop by chance, and at most three rounds
more than needed are timed."""
NARROW_INTERVAL = MARGIN / 2
"""Half-width of an interval, as a share of the median, below which no more rounds are needed. It is half of the
margin for "same", so that two such intervals are either separate or the same."""


def rounds_needed(comparisons: int, level: float = LEVEL) -> int:
    """The fewest rounds with which one of `comparisons` comparisons can reach a verdict."""
    alpha = (1 - level) / max(comparisons, 1)
    return math.ceil(1 - math.log2(alpha))
