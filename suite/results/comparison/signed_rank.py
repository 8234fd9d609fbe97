"""The median of differences between pairs that are alike but for what is asked, and its exact interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import median

from attnsuite.model.statistics import Interval


def signed_rank(values: Sequence[float], level: float) -> Interval:
    """The Hodges–Lehmann estimate, the median of the means of all two values, and the signed-rank test's interval.

    It is exact where differences are as likely to lie on either side of the true one, as those of two processes of the
    same code are; no other shape is assumed. Unbounded where the values are too few for the level. ValueError where
    there are none.

    Source: Hollander, Wolfe and Chicken, Nonparametric Statistical Methods (2014), sections 3.2 and 3.3.
    """
    if not values:
        raise ValueError("no differences, so no median")
    means = sorted((one + other) / 2 for place, one in enumerate(values) for other in values[place:])
    rank = _rank(len(values), level)
    if rank == 0:
        return Interval(median(means), -math.inf, math.inf)
    return Interval(median(means), means[rank - 1], means[-rank])


def probability(values: Sequence[float]) -> float:
    """The two-sided probability of as uneven a division by signed ranks, were there no difference."""
    means = [one + other for place, one in enumerate(values) for other in values[place:]]
    above, below = sum(mean > 0 for mean in means), sum(mean < 0 for mean in means)
    ways = sum(_counts(len(values))[: min(above, below) + 1])
    return min(1.0, math.ldexp(2 * ways, -len(values)))


def pairs_needed(comparisons: int, level: float) -> int:
    """The fewest pairs with which one among this number of comparisons can lead to a claim."""
    doubt = (1 - level) / max(comparisons, 1)
    return math.ceil(1 - math.log2(doubt))


@lru_cache(maxsize=4096)
def _rank(count: int, level: float) -> int:
    """The largest rank r so that the means r-th from either end enclose the median at this level; 0 for none."""
    doubt, tail, rank = (1 - level) / 2, 0, 0
    for ways in _counts(count):
        tail += ways
        if tail / 2**count > doubt * (1 + 1e-9):
            return rank
        rank += 1
    return rank


@lru_cache(maxsize=64)
def _counts(count: int) -> tuple[int, ...]:
    """In how many ways a subset of the ranks 1 to `count` has each sum, from 0 on."""
    ways = [1]
    for rank in range(1, count + 1):
        longer = ways + [0] * rank
        ways = [before + (longer[total - rank] if total >= rank else 0) for total, before in enumerate(longer)]
    return tuple(ways)
