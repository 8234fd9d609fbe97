"""Where the level of a series changed for good: steps that at least two runs on either side show.

1. A median of three neighbours takes out what a single run shows, and leaves every level of two runs or more in place.
2. Optimal partitioning (Jackson et al., 2005) places candidates: of all divisions into levels of at least two runs the
   one with the least squared distance, where each further level has to lower it by PENALTY · log(number of runs).
   It is exact, and a dozen lines: libraries for it take longer to import than all else that a report does.
3. Candidates are tested on the runs as they were, the weakest is dropped and the rest tested again, until all hold.

The test is a moderated t-test between the medians of the two levels (Smyth, 2004): with few runs the spread between
runs is hardly known from the series itself, so it is weighed against what series of the machine usually have. It holds
at LEVEL for all places in all series of a machine together (Bonferroni), and only beyond MARGIN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from attnsuite.model.quantiles import student
from attnsuite.model.statistics import LEVEL, MARGIN

LEAST = 2
"""Runs on either side of a step."""
PENALTY = 2.0
"""How much a further level has to gain, in squared standard deviations, times log(runs): little, for a test follows."""
USUAL = 0.01
"""The least usual spread between runs, as a share: what the same code in another process gives on a quiet machine."""
WEIGHT = 4
"""For how many runs the usual spread counts in a series: spreads of a machine's series differ by a factor of 2."""
CLIPPED = 3.0
"""Deviations from a level beyond so many standard deviations count as this many: one odd run hides no step."""
CLEAR = 0.75
"""The share of a level's runs that have to lie on its side of a step: all of two or three."""
TO_SIGMA = 1.4826
"""The standard deviation of a normal distribution, in medians of absolute deviations."""


@dataclass(frozen=True)
class Step:
    """From run `at` of the series on, counted from 0, the level is `ratio` times what it was, within low and high."""

    at: int
    ratio: float
    low: float
    high: float


def candidates(logs: Sequence[float]) -> list[int]:
    """Where levels may begin."""
    if len(logs) < 2 * LEAST:
        return []
    scale = max(TO_SIGMA * median(abs(b - a) for a, b in pairwise(logs)) / math.sqrt(2), USUAL / 4)
    return divided([value / scale for value in _calm(logs)], PENALTY * math.log(len(logs)))


def divided(values: Sequence[float], penalty: float) -> list[int]:
    """Where levels begin, but for the first, in the division of the values with the least cost.

    A level costs its values' squared distances from their mean, and the penalty. `least[end]` is what the best division
    of the values before `end` costs, and `last[end]` where its last level begins.
    """
    import numpy

    centred = numpy.array(values) - numpy.mean(values)  # lest large squares cancel
    sums, squares = (numpy.concatenate([[0.0], numpy.cumsum(of)]) for of in (centred, centred**2))
    least = numpy.full(len(values) + 1, math.inf)
    least[0], last = 0.0, [0] * (len(values) + 1)
    for end in range(LEAST, len(values) + 1):
        starts = numpy.arange(end - LEAST + 1)
        distances = squares[end] - squares[starts] - (sums[end] - sums[starts]) ** 2 / (end - starts)
        costs = least[starts] + numpy.maximum(distances, 0) + penalty
        last[end] = int(costs.argmin())
        least[end] = costs[last[end]]
    found, end = list[int](), len(values)
    while end := last[end]:
        found.insert(0, end)
    return found


def spread(logs: Sequence[float], starts: Sequence[int], usual: float = USUAL) -> tuple[float, int]:
    """The standard deviation of runs from their level, and how many degrees of freedom it has."""
    off = [abs(value - median(part)) for part in _parts(logs, starts) for value in part]
    free = len(logs) - len(starts) - 1
    most = CLIPPED * max(TO_SIGMA * median(off), usual)
    return math.sqrt(sum(min(each, most) ** 2 for each in off) / free) if free > 0 else 0.0, free


def usual_spread(series: Sequence[Sequence[float]]) -> float:
    """What series of a machine usually have: the median of their spreads, and USUAL at least."""
    found = [spread(logs, candidates(logs))[0] for logs in series if len(logs) >= 2 * LEAST]
    return max(USUAL, median(found)) if found else USUAL


def steps(logs: Sequence[float], usual: float = USUAL, series: int = 1) -> list[Step]:
    """The steps in a series of logarithms, one for each run, among so many series of the machine."""
    starts = candidates(logs)
    while starts:
        tested = [_tested(logs, starts, place, usual, series) for place in range(len(starts))]
        held = [_strength(each) * _is_clear(logs, starts, place) for place, each in enumerate(tested)]
        if min(held) > 0:
            return tested
        del starts[held.index(min(held))]
    return []


def of_all(series: Sequence[Sequence[float]]) -> list[list[Step]]:
    """The steps in all series of a machine."""
    long = sum(len(logs) >= 2 * LEAST for logs in series)
    usual = usual_spread(series)
    return [steps(logs, usual, long) for logs in series]


def _calm(logs: Sequence[float]) -> list[float]:
    """The median of each value and its neighbours; at the ends of the first or last three."""
    inner = [sorted(logs[place - 1 : place + 2])[1] for place in range(1, len(logs) - 1)]
    return [inner[0], *inner, inner[-1]]


def _parts(logs: Sequence[float], starts: Sequence[int]) -> list[Sequence[float]]:
    return [logs[a:b] for a, b in zip((0, *starts), (*starts, len(logs)), strict=True)]


def _tested(logs: Sequence[float], starts: Sequence[int], place: int, usual: float, series: int) -> Step:
    """The step at one of the starts, with the interval in which it lies."""
    before, after = _parts(logs, starts)[place : place + 2]
    own, free = spread(logs, starts, usual)
    sigma = math.sqrt((WEIGHT * usual**2 + free * own**2) / (WEIGHT + free))
    error = sigma * math.sqrt(_variance(len(before)) + _variance(len(after)))
    doubt = (1 - LEVEL) / series / max(1, len(logs) - 2 * LEAST + 1)
    room = student(WEIGHT + free, doubt / 2) * error
    by = median(after) - median(before)
    return Step(starts[place], math.exp(by), math.exp(by - room), math.exp(by + room))


def _is_clear(logs: Sequence[float], starts: Sequence[int], place: int) -> bool:
    """Whether nearly all runs of both levels lie on their side of the middle between these."""
    before, after = _parts(logs, starts)[place : place + 2]
    low, high = sorted((before, after), key=median)
    middle = (median(low) + median(high)) / 2
    shares = sum(each < middle for each in low) / len(low), sum(each > middle for each in high) / len(high)
    return min(shares) >= CLEAR


def _variance(count: int) -> float:
    """The variance of a median of so many normal values, in theirs: π/2 of a mean's, and a mean's where it is one."""
    return (1 if count <= 2 else math.pi / 2) / count


def _strength(of: Step) -> float:
    """How far a step's interval lies from 1, as a logarithm; 0 or less where it holds nothing."""
    if abs(math.log(of.ratio)) <= math.log1p(MARGIN):
        return 0.0
    return math.log(of.low) if of.ratio > 1 else -math.log(of.high)
