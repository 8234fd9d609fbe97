"""What samples say: medians with their intervals, and which of two implementations is faster."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from statistics import median
from types import MappingProxyType

LEVEL = 0.99
"""The confidence level: every interval holds the true value with this probability, and a table makes a false claim with
the remaining one at most. It is 0.99 because a run has tens of tables."""
MARGIN = 0.03
"""A ratio: times that differ by less count as the same. Smaller differences are found, but come and go with where a
process has its memory."""
DEPENDENT = 1.645
"""Standard errors of an autocorrelation of independent rounds above which rounds count as dependent: 5 % of tables of
independent rounds get a wider interval without need."""
MOST_DEPENDENT = 0.95
"""The largest autocorrelation that is allowed for: above it no number of rounds says anything."""
OUTLYING = 25.0
"""An implementation whose processes differ with more than this many times the variance of all others is no witness of
what processes do to the others. By chance that is one table in 1,000."""
FEWEST_WITNESSES = 3
"""Other implementations that say what processes usually do, at least, before one can be unlike them."""
FEWEST_TO_DEPEND = 8
"""Rounds whose autocorrelation says anything."""
MEDIAN_OF_NORMAL = math.pi / 2
"""The variance of a median of many normal values, in those of their mean."""
TO_DEVIATION = 1.4826
"""What makes a standard deviation of the median distance of normal values from their median."""
ROUNDS_DEPEND, PROCESSES_DIFFER = "rounds depend on each other", "processes differ"
"""Why a comparison is unclear that would not be if every round and every process were like any other."""
VERDICTS = ("faster", "slower", "same", "unclear")
"""What can be said of an implementation beside the baseline."""


@dataclass(frozen=True)
class Interval:
    """A median and the interval in which the true one lies."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """How much faster one implementation is than another: speed-up 2 is half the time.

    `speedup` is the median of the ratios within rounds, `low` and `high` its interval, corrected for all comparisons
    made together; `pairs` counts the rounds. The interval holds what was tested of the rounds and the processes.
    """

    speedup: float
    low: float
    high: float
    pairs: int
    verdict: str
    autocorrelation: float = 0.0
    """Of the ranks of the ratios of rounds that follow each other; it widens the interval where it is not chance."""
    process_spread: float | None = None
    """The standard deviation of what a process adds to the logarithm of a time, beyond what the noise of rounds
    explains; None where each implementation had one process, so that it is not tested."""
    why: str = ""
    """Why it is `unclear` in spite of its rounds: ROUNDS_DEPEND or PROCESSES_DIFFER."""


def interval(samples: Sequence[float], level: float = LEVEL, worth: int | None = None) -> Interval:
    """The median and its interval between two order statistics, exact for any distribution of independent samples.

    Samples that depend on each other are `worth` fewer independent ones, and their interval is as wide as of those.
    Where the samples are too few for the level the interval is unbounded. Raises ValueError where there are none.

    Source: David and Nagaraja, Order Statistics (2003), section 7.1. Unlike a bootstrap it draws no random numbers, and
    it does not claim too much with few samples.
    """
    if not samples:
        raise ValueError("no samples, so no median")
    ordered = sorted(samples)
    rank = _rank(worth or len(ordered), level)
    if rank == 0:
        return Interval(median(ordered), -math.inf, math.inf)
    if worth and worth < len(ordered):
        rank = 1 + int((rank - 0.5) * len(ordered) / worth)
    return Interval(median(ordered), ordered[rank - 1], ordered[-rank])


def compare(
    baseline: Sequence[float],
    others: Mapping[str, Sequence[float]],
    level: float = LEVEL,
    processes: Mapping[str, Sequence[int]] = MappingProxyType({}),
    baseline_processes: Sequence[int] = (),
) -> dict[str, Comparison]:
    """Each of the others against the baseline, by samples of the same rounds: sample i of both is of round i.

    `faster` or `slower` where the interval excludes 1 and the median lies beyond the margin; `same` where the interval
    lies within the margin; else `unclear`. Levels are corrected for the number of comparisons by Holm's method, so that
    the chance of any false claim among them stays below 1 − level. `processes` and `baseline_processes` say which
    process took each sample; without them it is not tested whether processes differ.
    """
    logs = {
        name: [math.log(mine / theirs) for mine, theirs in zip(baseline, samples, strict=False)]
        for name, samples in others.items()
        if samples and baseline
    }
    tested = Tested(logs, processes, baseline_processes)
    found = {}
    doubt = 1 - level
    by_surprise = sorted(logs, key=lambda name: _sign_test(logs[name]))
    for position, name in enumerate(by_surprise):
        strict = 1 - doubt / (len(logs) - position)
        found[name] = tested.compared(name, strict)
        if found[name].verdict not in ("faster", "slower"):  # Holm: nothing after this is claimed at a milder level
            return found | {other: tested.compared(other, strict) for other in by_surprise[position + 1 :]}
    return found


class Tested:
    """The logarithms of ratios within rounds, and what they say of the two assumptions behind their intervals.

    That rounds are independent, and that a process is like any other of the same implementation: both are tested, and
    intervals are as wide as what is found. Raises nothing; what has too few samples is not tested.
    """

    def __init__(
        self,
        logs: Mapping[str, Sequence[float]],
        processes: Mapping[str, Sequence[int]],
        baseline_processes: Sequence[int],
    ) -> None:
        self._logs = logs
        own = {name: _between(of, processes.get(name, ())) for name, of in logs.items()}
        self._others = {name: found for name, found in own.items() if found}
        self._baseline = _averaged(
            [found for of in logs.values() if (found := _between(of, baseline_processes[: len(of)]))]
        )

    def compared(self, name: str, level: float) -> Comparison:
        """One comparison at a level that is corrected already."""
        logs = self._logs[name]
        pairs, dependence = len(logs), autocorrelation(logs)
        plain = judged(interval(logs, level), pairs)
        allowed = interval(logs, level, independent_rounds(pairs, dependence))
        by_rounds = judged(allowed, pairs)
        spread, freedom, error = self._spread(name)
        found = by_rounds
        if spread:
            found = judged(_widened(allowed, _student((1 + level) / 2, freedom) * error), pairs)
        why = ""
        if found.verdict == "unclear" != plain.verdict:
            why = ROUNDS_DEPEND if by_rounds.verdict == "unclear" else PROCESSES_DIFFER
        return replace(found, autocorrelation=dependence, process_spread=spread, why=why)

    def _spread(self, name: str) -> tuple[float | None, int, float]:
        """What a process adds (None: not tested), the degrees of freedom that say so, the error of a ratio by it."""
        every = {**self._others, **({"": self._baseline} if self._baseline else {})}
        if not every:
            return None, 0, 0.0
        own = [every[each] for each in (name, "") if each in every]
        outlier = _outlier(list(every.values()))
        chosen = [outlier] if outlier and outlier in own else [of for of in every.values() if of is not outlier]
        freedom = sum(of.freedom for of in chosen)
        variance = max(0.0, sum(of.squares - of.freedom * of.noise for of in chosen) / freedom)
        counts = [every[each].freedom + 1 if each in every else 1 for each in (name, "")]
        return math.sqrt(variance), freedom, math.sqrt(variance * sum(1 / count for count in counts))


@dataclass(frozen=True)
class _Between:
    """How far the processes of one implementation lie apart: the sum of `squares` of the differences of their medians
    from the mean of these, its degrees of `freedom`, and the variance of such a median that is `noise` of rounds.
    """

    squares: float
    freedom: int
    noise: float


def _between(logs: Sequence[float], processes: Sequence[int]) -> _Between | None:
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
    return _Between(sum((of - centre) ** 2 for of in medians), len(medians) - 1, noise)


def _averaged(found: Sequence[_Between]) -> _Between | None:
    """What several comparisons say of the same processes."""
    if not found:
        return None
    squares, noise = (sum(getattr(of, name) for of in found) / len(found) for name in ("squares", "noise"))
    return _Between(squares, min(of.freedom for of in found), noise)


def _outlier(found: Sequence[_Between]) -> _Between | None:
    """The one whose processes differ far more than those of all others; None where none does, or there are few."""
    most = max(found, key=lambda of: of.squares / of.freedom)
    others = [of for of in found if of is not most]
    if len(others) < FEWEST_WITNESSES:
        return None
    usual = sum(of.squares for of in others) / sum(of.freedom for of in others)
    usual = max(usual, sum(of.noise for of in others) / len(others))
    return most if most.squares / most.freedom > OUTLYING * usual else None


def autocorrelation(values: Sequence[float]) -> float:
    """How much the rank of a value says of the rank of the next one, from −1 to 1; 0 for fewer than 8, or for equals.

    Ranks, so that one outlier says no more than any other value.
    """
    if len(values) < FEWEST_TO_DEPEND:
        return 0.0
    places = _ranks(values)
    centre = (len(values) - 1) / 2
    off = [place - centre for place in places]
    squares = sum(each * each for each in off)
    return sum(one * other for one, other in pairwise(off)) / squares if squares else 0.0


def independent_rounds(count: int, dependence: float) -> int:
    """How many independent rounds say as much as this number of rounds with this autocorrelation.

    All of them, unless the autocorrelation is beyond chance. It is corrected for being too small in few rounds
    (Marriott and Pope, Biometrika 41, 1954), and rounds count as those of an autoregressive process of first order.
    """
    if dependence <= DEPENDENT / math.sqrt(count):
        return count
    true = min(dependence + (1 + 4 * dependence) / count, MOST_DEPENDENT)
    return max(1, int(count * (1 - true) / (1 + true)))


def rounds_needed(comparisons: int, level: float = LEVEL) -> int:
    """The fewest rounds with which one among this number of comparisons can lead to a claim."""
    doubt = (1 - level) / max(comparisons, 1)
    return math.ceil(1 - math.log2(doubt))


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


def judged(of: Interval, pairs: int, least: float = MARGIN) -> Comparison:
    """What the interval of the logarithms of so many ratios says, where smaller differences than `least` are none."""
    margin = math.log1p(least)
    if of.low > 0 and of.median > margin:
        verdict = "faster"
    elif of.high < 0 and of.median < -margin:
        verdict = "slower"
    elif of.low > -margin and of.high < margin:
        verdict = "same"
    else:
        verdict = "unclear"
    return Comparison(math.exp(of.median), _exp(of.low), _exp(of.high), pairs, verdict)


def _widened(of: Interval, half: float) -> Interval:
    """The interval, wider by an independent error of this half-width."""
    below, above = math.hypot(of.median - of.low, half), math.hypot(of.high - of.median, half)
    return Interval(of.median, of.median - below, of.median + above)


def _ranks(values: Sequence[float]) -> list[float]:
    """The place of each value among all, from 0; equal values share the mean of theirs."""
    ordered = sorted(values)
    return [(bisect_left(ordered, value) + bisect_right(ordered, value) - 1) / 2 for value in values]


@lru_cache(maxsize=4096)
def _student(level: float, freedom: int) -> float:
    """The quantile of Student's t distribution."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, level))


def _exp(value: float) -> float:
    return math.exp(value) if value < math.inf else math.inf


def _sign_test(logs: Sequence[float]) -> float:
    """The two-sided probability of as uneven a division into signs, were there no difference."""
    above, below = sum(value > 0 for value in logs), sum(value < 0 for value in logs)
    fewer, count = min(above, below), above + below
    return min(1.0, 2 * sum(math.comb(count, k) for k in range(fewer + 1)) / 2**count) if count else 1.0


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
