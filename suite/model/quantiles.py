"""Quantiles of distributions. mpmath takes a tenth of the time to import that SciPy does, which a short report has."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

EXACT = 1e-12
"""The share of a quantile by which it may be off."""
MOST_STEPS = 20
"""Newton's steps at most: up to 12 are needed where one quantity in a billion is asked for, and otherwise 5."""


@lru_cache(maxsize=4096)
def student(freedom: int, tail: float) -> float:
    """What a quantity with Student's t distribution exceeds with this probability, of at most a half.

    Newton's method on the logarithm of the tail, which is nearly a parabola, from what the normal distribution says and
    the first term by which Student's differs from it.
    """
    from mpmath import mp  # 0.02 s, which commands that test nothing need not wait for

    normal = -NormalDist().inv_cdf(tail)
    found = normal + (normal**3 + normal) / (4 * freedom)
    density = 1 / (math.sqrt(freedom) * float(mp.beta(freedom / 2, 0.5)))
    for _ in range(MOST_STEPS):
        share = 1 + found**2 / freedom
        beyond = float(mp.betainc(freedom / 2, 0.5, 0, 1 / share, regularized=True)) / 2
        step = beyond * math.log(beyond / tail) / (density * share ** (-(freedom + 1) / 2))
        found += step
        if abs(step) <= EXACT * found:
            break
    return found
