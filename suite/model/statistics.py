"""What samples say: medians with their intervals, and which of two implementations is faster."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from statistics import fmean, median
from types import MappingProxyType

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
    """The value that a quantity with Student's t distribution exceeds with this probability."""
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
MARGIN = 0.03
"""A ratio: times that differ by less count as the same. Smaller differences are found, but come and go with where a
process has its memory."""
ROUNDS_DEPEND, PROCESSES_DIFFER = "rounds depend on each other", "its processes differ"
"""Why a comparison is unclear where that is for what was found of rounds and processes, and not for the noise alone."""
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
    made together; `pairs` counts the rounds. The interval allows for what was found of rounds and of processes.
    """

    speedup: float
    low: float
    high: float
    pairs: int
    verdict: str
    autocorrelation: float = 0.0
    """Of the ratios of rounds that follow each other: the interval allows for so much."""
    process_spread: float | None = None
    """The standard deviation of what a process adds to the logarithm of a time, 0 where that is no more than the noise
    of rounds; None where each implementation had one process, so that it is not tested."""
    why: str = ""
    """Why it is `unclear` in spite of its rounds: ROUNDS_DEPEND or PROCESSES_DIFFER."""


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


def compare(
    baseline: Sequence[float],
    others: Mapping[str, Sequence[float]],
    level: float = LEVEL,
    processes: Mapping[str, str] = MappingProxyType({}),
    baseline_processes: str = "",
) -> dict[str, Comparison]:
    """Each of the others against the baseline, by samples of the same rounds: sample i of both is of round i.

    `faster` or `slower` where the interval excludes 1 and the median lies beyond the margin; `same` where the interval
    lies within the margin; else `unclear`. Levels are corrected for the number of comparisons by Holm's method, so that
    the chance of any false claim among them stays below 1 − level. `processes` and `baseline_processes` say which
    process took each sample, a character for each; without them it is not tested whether processes differ.
    """
    logs = {
        name: [math.log(mine / theirs) for mine, theirs in zip(baseline, samples, strict=False)]
        for name, samples in others.items()
        if samples and baseline
    }
    tested = _Tested(dependences(logs), Processes(logs, processes, baseline_processes))
    found = {}
    doubt = 1 - level
    by_surprise = sorted(logs, key=lambda name: _sign_test(logs[name]))
    for position, name in enumerate(by_surprise):
        strict = 1 - doubt / (len(logs) - position)
        found[name] = _compared(name, logs[name], strict, tested)
        if found[name].verdict not in ("faster", "slower"):  # Holm: nothing after this is claimed at a milder level
            rest = by_surprise[position + 1 :]
            return found | {other: _compared(other, logs[other], strict, tested) for other in rest}
    return found


@dataclass(frozen=True)
class _Tested:
    """What was found of the rounds of each comparison of a table, and of the processes."""

    rounds: Mapping[str, float]
    processes: Processes


def _compared(name: str, logs: Sequence[float], level: float, tested: _Tested) -> Comparison:
    """One comparison at a level that is corrected already: what its rounds say, then what has to be allowed for."""
    of, pairs, error = interval(logs, level), len(logs), tested.processes.error(name, level)
    wider = _scaled(of, widening(tested.rounds[name]))
    by_rounds, found = judged(wider, pairs), judged(_blurred(wider, error), pairs)
    why = ""
    if found.verdict == "unclear":
        if by_rounds.verdict != "unclear" or 2 * error > wider.high - wider.low:
            why = PROCESSES_DIFFER
        elif judged(of, pairs).verdict != "unclear":
            why = ROUNDS_DEPEND
    spread = tested.processes.spread(name)[0] if tested.processes.tested(name) else None
    return replace(found, autocorrelation=tested.rounds[name], process_spread=spread, why=why)


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


def _scaled(of: Interval, times: float) -> Interval:
    """The interval, so many times as wide on either side of the median."""
    if times == 1:
        return of
    return Interval(of.median, of.median - times * (of.median - of.low), of.median + times * (of.high - of.median))


def _blurred(of: Interval, half: float) -> Interval:
    """The interval, wider by an independent error of this half-width."""
    if not half:
        return of
    below, above = math.hypot(of.median - of.low, half), math.hypot(of.high - of.median, half)
    return Interval(of.median, of.median - below, of.median + above)


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
