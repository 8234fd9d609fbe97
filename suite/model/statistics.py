"""What samples say: medians with their intervals, and tests of rounds and processes."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from statistics import fmean, median

DEPENDENT = 1.645
"""Standard errors above which the autocorrelation of one comparison is not taken for chance: that of independent rounds
lies above it one time in 20."""
MOST_DEPENDENT = 0.9
"""The largest autocorrelation that is allowed for, with an interval 4.4 times as wide. Few rounds cannot tell a larger
one."""
FEWEST_TO_DEPEND = 8
"""Rounds whose autocorrelation says anything."""
DIFFERING = 0.95
"""The level of the test of processes: one table in 20 whose processes are alike gets wider intervals without need."""
OUTLYING = 25.0
"""An implementation whose processes differ with more than this many times the variance of all others is no witness of
what processes do to the others. By chance that is one table in 1,000."""
FEWEST_WITNESSES = 3
"""Other implementations that say what processes usually do, at least, before one can be unlike them."""
MEDIAN_OF_NORMAL = math.pi / 2
"""The variance of a median of many normal values, in those of their mean."""
TO_DEVIATION = 1.4826
"""What makes a standard deviation of the median distance of normal values from their median."""


def student(freedom: int, tail: float) -> float:
    """The value that a quantity with Student's t distribution exceeds with this probability.

    >>> round(student(4, 0.025), 3)
    2.776
    """
    from scipy.special import stdtrit  # 0.1 s, which commands without statistics need not wait for

    return -float(stdtrit(freedom, tail))


def autocorrelation(values: Sequence[float]) -> float | None:
    """How much the rank of a value says of the rank of the next one, from −1 to 1.

    None for fewer than 8, or for equals. Ranks, so that one outlier says no more than any other value.
    """
    ordered = sorted(values)
    if len(values) < FEWEST_TO_DEPEND or ordered[0] == ordered[-1]:
        return None
    off = [bisect_left(ordered, value) + bisect_right(ordered, value) - len(values) for value in values]
    return sum(one * other for one, other in pairwise(off)) / sum(each * each for each in off)


def dependences(logs: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The autocorrelation of rounds for which each comparison of a table has to allow, from 0 to MOST_DEPENDENT.

    The mean over the table, for what disturbs a machine disturbs all, and few rounds of one comparison say little; or
    its own, where that is larger, and larger than chance makes it.
    """
    own = {name: found for name, of in logs.items() if (found := autocorrelation(of)) is not None}
    mean = fmean(_unbiased(found, len(logs[name])) for name, found in own.items()) if own else 0.0
    allowed = dict.fromkeys(logs, mean)
    for name, found in own.items():
        if found > DEPENDENT / math.sqrt(len(logs[name])):
            allowed[name] = max(mean, _unbiased(found, len(logs[name])))
    return {name: min(max(found, 0.0), MOST_DEPENDENT) for name, found in allowed.items()}


def widening(dependence: float) -> float:
    """How many times as wide the interval of rounds with this autocorrelation is as that of as many independent ones:
    they count as rounds of an autoregressive process of first order.
    """
    return math.sqrt((1 + dependence) / (1 - dependence))


def _unbiased(found: float, count: int) -> float:
    """An autocorrelation without what makes it too small in few rounds.

    Source: Marriott and Pope, Bias in the estimation of autocorrelations, Biometrika 41 (1954).
    """
    return found + (1 + 4 * found) / count


@dataclass(frozen=True)
class Between:
    """How far the processes of one implementation lie apart: the sum of `squares` of the differences of their medians
    from the mean of these, its degrees of `freedom`, and the variance of such a median that is `noise` of rounds.
    """

    squares: float
    freedom: int
    noise: float


class Processes:
    """What processes add to the logarithms of ratios, told by all comparisons of a table together.

    `logs` are the logarithms by implementation; `own` and `baseline` say which process took each sample. What had one
    process is not tested.
    """

    def __init__(self, logs: Mapping[str, Sequence[float]], own: Mapping[str, str], baseline: str) -> None:
        found = {name: between(of, own.get(name, "")) for name, of in logs.items()}
        self._of = {name: each for name, each in found.items() if each}
        if shared := _in_common([each for of in logs.values() if (each := between(of, baseline[: len(of)]))]):
            self._of[""] = shared  # the baseline

    def tested(self, name: str) -> bool:
        """Whether this implementation or its baseline had more than one process."""
        return name in self._of or "" in self._of

    def spread(self, name: str) -> tuple[float, int]:
        """The standard deviation of what a process adds, 0 where that is chance, and its degrees of freedom."""
        own = [self._of[each] for each in (name, "") if each in self._of]
        outlier = _outlier(list(self._of.values()))
        if outlier is not None and any(each is outlier for each in own):
            chosen = [outlier]
        else:
            chosen = [of for of in self._of.values() if of is not outlier]
        freedom, squares = sum(of.freedom for of in chosen), sum(of.squares for of in chosen)
        noise = sum(of.freedom * of.noise for of in chosen)
        if squares <= noise * _largest_ratio(freedom):
            return 0.0, freedom
        return math.sqrt((squares - noise) / freedom), freedom

    def error(self, name: str, level: float) -> float:
        """The half-width of the interval of what the processes of this comparison add to its logarithm."""
        if not self.tested(name):
            return 0.0
        deviation, freedom = self.spread(name)
        counts = [self._of[each].freedom + 1 if each in self._of else 1 for each in (name, "")]
        return deviation and student(freedom, (1 - level) / 2) * deviation * math.sqrt(sum(1 / n for n in counts))


def between(logs: Sequence[float], processes: str) -> Between | None:
    """From the logarithms of an implementation's ratios and the processes that took them; None for fewer than two.

    Ratios, not times, so that what disturbs a whole round is not taken for a difference.
    """
    groups = [[log for log, of in zip(logs, processes, strict=False) if of == each] for each in sorted(set(processes))]
    groups = [group for group in groups if len(group) > 1]
    if len(groups) < 2:
        return None
    medians = [median(group) for group in groups]
    centre = sum(medians) / len(medians)
    off = median(abs(log - of) for group, of in zip(groups, medians, strict=True) for log in group)
    each = MEDIAN_OF_NORMAL * (TO_DEVIATION * off) ** 2
    noise = each * sum(1 / len(group) for group in groups) / len(groups)
    return Between(sum((of - centre) ** 2 for of in medians), len(medians) - 1, noise)


def _in_common(found: Sequence[Between]) -> Between | None:
    """What several comparisons say of the same processes: the median, so that one of them alone says little."""
    if not found:
        return None
    squares, noise = (median(getattr(of, name) for of in found) for name in ("squares", "noise"))
    return Between(squares, min(of.freedom for of in found), noise)


def _outlier(found: Sequence[Between]) -> Between | None:
    """The one whose processes differ far more than those of all others; None where none does, or there are few."""
    most = max(found, key=lambda of: of.squares / of.freedom)
    others = [of for of in found if of is not most]
    if len(others) < FEWEST_WITNESSES:
        return None
    usual = sum(of.squares for of in others) / sum(of.freedom for of in others)
    usual = max(usual, sum(of.noise for of in others) / len(others))
    return most if most.squares / most.freedom > OUTLYING * usual else None


@lru_cache(maxsize=64)
def _largest_ratio(freedom: int) -> float:
    """The largest mean square that chance gives at the level of the test, in the variance that is noise."""
    from scipy.special import chdtri

    return float(chdtri(freedom, 1 - DIFFERING)) / freedom


LEVEL = 0.99
"""The confidence level: every interval holds the true value with this probability, and a table makes a false claim with
the remaining one at most. It is 0.99 because a run has tens of tables."""


@dataclass(frozen=True)
class Interval:
    """A median and the interval in which the true one lies."""

    median: float
    low: float
    high: float


def interval(samples: Sequence[float], level: float = LEVEL) -> Interval:
    """The median and its interval between two order statistics, exact for any distribution of independent samples.

    Where the samples are too few for the level the interval is unbounded. Raises ValueError where there are none.

    Source: David and Nagaraja, Order Statistics (2003), section 7.1. Unlike a bootstrap it draws no random numbers, and
    it does not claim too much with few samples.
    """
    if not samples:
        raise ValueError("no samples, so no median")
    ordered = sorted(samples)
    rank = _rank(len(ordered), level)
    if rank == 0:
        return Interval(median(ordered), -math.inf, math.inf)
    return Interval(median(ordered), ordered[rank - 1], ordered[-rank])


def exponent(sizes: Sequence[float], values: Sequence[float], constant: float = 0.0) -> float | None:
    """The power of the size by which values grow, by least squares on logarithms, after taking a constant off.

    None where fewer than two sizes have a value above the constant.
    """
    points = [
        (math.log(size), math.log(value - constant))
        for size, value in zip(sizes, values, strict=True)
        if value > constant
    ]
    if len({x for x, _ in points}) < 2:
        return None
    centre_x, centre_y = (sum(axis) / len(points) for axis in zip(*points, strict=True))
    across = sum((x - centre_x) ** 2 for x, _ in points)
    slope: float = sum((x - centre_x) * (y - centre_y) for x, y in points) / across
    return slope


def lies_within(of: Interval, low: float, high: float) -> bool | None:
    """Whether an interval lies between two ends, which belong to what is between; None where it lies across an end."""
    if low <= of.low and of.high <= high:
        return True
    return False if of.high < low or high < of.low else None


@lru_cache(maxsize=4096)
def _rank(count: int, level: float) -> int:
    """The largest rank r so that order statistics r and count + 1 − r enclose the median at this level; 0 for none."""
    doubt, tail, rank = (1 - level) / 2, 0.0, 0
    while rank < count // 2:
        tail += math.comb(count, rank) / 2**count
        if tail > doubt * (1 + 1e-9):
            break
        rank += 1
    return rank
