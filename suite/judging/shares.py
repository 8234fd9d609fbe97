"""Counts in random outputs, and the limits within which they stay for independent draws.

A run has at most MAX_TESTS statistical tests of all implementations together. It may falsely reject a correct
implementation with probability FALSE_REJECTION. By the union bound each test has the share FALSE_REJECTION / MAX_TESTS
of it, 2e-13, whatever the tests have in common. Each of the n statistics of a test has 2e-13 / n, and each of its two
tails half of that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from attnsuite.judging.compare import Array

FALSE_REJECTION = 1e-9
"""The probability of a false rejection of a correct implementation in a whole run."""
MAX_TESTS = 5000
"""The largest number of statistical tests of a run. What ships here has fewer, which a test counts."""
CLOSE = 4.0
"""Standard deviations within which two outputs count as drawn alike, for diagnosis."""
WIDER = 1.3
"""The factor of the normal limits of a spread: its true ones lie farther out on one side, by a fifth at 256 counts."""
SPREADS_ALIKE = 1.25
"""The ratio up to which two spreads count as drawn alike, for diagnosis."""


def min_seeds(likeliest: float, statistics: int) -> int:
    """The number of draws that reveal a constant output, of a test with this number of statistics.

    `likeliest` is the probability of the likeliest output: its n-th power may not exceed one tail of a statistic.
    """
    tail = FALSE_REJECTION / MAX_TESTS / statistics / 2
    return math.ceil(math.log(tail) / math.log(likeliest))


@dataclass(frozen=True)
class Share:
    """`count` of `total` places, each counted with a probability between `low` and `high`. 0 and 1 are exact rules."""

    says: str
    count: int
    total: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The count."""
        return self.count

    def limits(self, tail: float) -> tuple[float, float]:
        """The limits that independent draws exceed on either side with this probability at most.

        Draws without replacement stay closer to the mean (Hoeffding 1963, theorem 4).
        """
        return _least(self.total, self.low, tail), self.total - _least(self.total, 1 - self.high, tail)

    def complaint(self, least: float, most: float) -> str:
        """The complaint about a count outside these limits."""
        limits = str(least) if least == most else f"between {least} and {most}"
        return f"{self.count} of {self.total} {self.says}, should be {limits}"

    def resembles(self, other: Share) -> bool:
        """Whether one probability may have given both counts."""
        if not self.total or not other.total:
            return True
        both = (self.count + other.count) / (self.total + other.total)
        variance = both * (1 - both) * (1 / self.total + 1 / other.total)
        return (self.count / self.total - other.count / other.total) ** 2 <= CLOSE**2 * variance


def exactly(says: str, count: int, total: int, probability: float) -> Share:
    """A share whose probability is known."""
    return Share(says, count, total, probability, probability)


@dataclass(frozen=True)
class Spread:
    """The variation of counts of `draws` draws with this probability: Σ (count − mean)² / variance.

    For independent draws it is nearly chi-squared, about the number of counts.
    """

    says: str
    counts: Array
    draws: int
    probability: float

    @property
    def variance(self) -> float:
        """That of one count."""
        return self.draws * self.probability * (1 - self.probability)

    @property
    def value(self) -> float:
        """The variation."""
        return float(((self.counts - self.draws * self.probability) ** 2).sum() / self.variance)

    @property
    def deviation(self) -> float:
        """The standard deviation of the sum: the squares of binomial counts vary more than those of normal ones."""
        excess = (1 - 6 * self.probability * (1 - self.probability)) / self.variance
        return float(np.sqrt(self.counts.size * (2 + excess)))

    def limits(self, tail: float) -> tuple[float, float]:
        """The limits that independent draws exceed on either side with this probability at most."""
        reach = -NormalDist().inv_cdf(tail) * self.deviation * WIDER
        return self.counts.size - reach, self.counts.size + reach

    def complaint(self, least: float, most: float) -> str:
        """The complaint about a variation outside these limits."""
        return f"{self.says} vary {self.value / self.counts.size:.2f} times as much as independent draws do"

    def resembles(self, other: Spread) -> bool:
        """Whether both variations are nearly as large."""
        smaller, larger = sorted([self.value, other.value])
        return larger <= SPREADS_ALIKE * smaller


Statistic = Share | Spread
"""Something that is counted in an output."""


@lru_cache(maxsize=4096)
def _least(total: int, probability: float, tail: float) -> int:
    """The lower limit of a count for this tail: 0 at probability 0, all at 1."""
    if probability <= 0 or not total:
        return 0
    if probability >= 1:
        return total
    from scipy import special  # 0.2 s, which checks without dropout need not wait for

    # as scipy.stats.binom.ppf, which takes a second to import
    near: int = max(0, math.ceil(special.bdtrik(tail, total, probability)))
    too_far = near > 0 and special.bdtr(near - 1, total, probability) >= tail
    return near - 1 if too_far else near


def complaint(statistics: Sequence[Statistic]) -> str | None:
    """What is wrong with the first statistic beyond its limits, or None."""
    for statistic, (least, most) in zip(statistics, _limits(statistics), strict=True):
        if not least <= statistic.value <= most:
            return statistic.complaint(least, most)
    return None


def alike(ours: Sequence[Statistic], theirs: Sequence[Statistic]) -> bool:
    """Whether two outputs keep and break the same limits, with counts that one way of drawing may give."""
    if [statistic.says for statistic in ours] != [statistic.says for statistic in theirs]:
        return False
    pairs = zip(ours, theirs, strict=True)  # of one kind each, as they have the same words
    return _within_limits(ours) == _within_limits(theirs) and all(our.resembles(their) for our, their in pairs)  # type: ignore[arg-type]


def _within_limits(statistics: Sequence[Statistic]) -> list[bool]:
    pairs = zip(statistics, _limits(statistics), strict=True)
    return [least <= statistic.value <= most for statistic, (least, most) in pairs]


def _limits(statistics: Sequence[Statistic]) -> list[tuple[float, float]]:
    """The limits of the statistics of one test."""
    tail = FALSE_REJECTION / MAX_TESTS / max(len(statistics), 1) / 2
    return [statistic.limits(tail) for statistic in statistics]
