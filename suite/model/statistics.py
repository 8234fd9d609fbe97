"""Medians of samples with their intervals, and tests for dependent rounds and differing processes."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from statistics import fmean, median

DEPENDENT = 1.645
"""An autocorrelation above this many standard errors widens intervals. This is the one-sided 5 % level: independent
rounds exceed it once in 20 times. With 25 rounds, that is an autocorrelation of 0.33."""
MAX_AUTOCORRELATION = 0.9
"""The largest autocorrelation that intervals allow for, which makes them 4.4 times as wide. Few rounds cannot show a
larger one."""
MIN_FOR_AUTOCORRELATION = 8
"""Rounds from which an autocorrelation is computed."""
DIFFERING = 0.95
"""The level of the test of processes: one table in 20 with equal processes gets wider intervals."""
OUTLYING = 25.0
"""Processes of one implementation that differ with more than this multiple of the variance of all others are ignored
for the others. By chance that happens in one table of 1,000."""
MIN_OTHERS = 3
"""Other implementations that are needed before one can be an outlier."""
MEDIAN_OF_NORMAL = math.pi / 2
"""The variance of a median of many normal values, divided by that of their mean."""
MAD_TO_DEVIATION = 1.4826
"""The standard deviation of normal values, divided by their MAD: the median distance from the median."""


def student(dof: int, tail: float) -> float:
    """The value that Student's t distribution exceeds with this probability.

    >>> round(student(4, 0.025), 3)
    2.776
    """
    from scipy.special import stdtrit  # imported here, because it takes 0.1 s

    return -float(stdtrit(dof, tail))


def autocorrelation(values: Sequence[float]) -> float | None:
    """The correlation of the rank of a value with the rank of the next one, from −1 to 1.

    None for fewer than 8 values, or for equal ones. Ranks limit the influence of outliers.
    """
    ordered = sorted(values)
    if len(values) < MIN_FOR_AUTOCORRELATION or ordered[0] == ordered[-1]:
        return None
    off = [bisect_left(ordered, value) + bisect_right(ordered, value) - len(values) for value in values]
    return sum(a * b for a, b in pairwise(off)) / sum(a * a for a in off)


def dependences(logs: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The autocorrelation of rounds that each comparison of a table allows for, from 0 to MAX_AUTOCORRELATION.

    It is the mean over the table, because disturbances affect all rows and few rounds of one row show little. Where
    its own is significant and larger, it is its own.
    """
    own = {name: value for name, series in logs.items() if (value := autocorrelation(series)) is not None}
    mean = fmean(_unbiased(value, len(logs[name])) for name, value in own.items()) if own else 0.0
    allowed = dict.fromkeys(logs, mean)
    for name, value in own.items():
        if value > DEPENDENT / math.sqrt(len(logs[name])):
            allowed[name] = max(mean, _unbiased(value, len(logs[name])))
    return {name: min(max(value, 0.0), MAX_AUTOCORRELATION) for name, value in allowed.items()}


def widening(dependence: float) -> float:
    """The factor by which this autocorrelation widens an interval, for an autoregressive process of first order."""
    return math.sqrt((1 + dependence) / (1 - dependence))


def _unbiased(value: float, count: int) -> float:
    """An autocorrelation corrected for its bias in few rounds.

    Source: Marriott and Pope, Bias in the estimation of autocorrelations, Biometrika 41 (1954).
    """
    return value + (1 + 4 * value) / count


@dataclass(frozen=True)
class ProcessVariation:
    """How the processes of one implementation vary.

    `squares` is the sum of squared differences of their medians from the mean of these, with `dof` degrees of freedom.
    `noise` is the variance of such a median that the noise of rounds explains.
    """

    squares: float
    dof: int
    noise: float


class Processes:
    """The between-process variance of the logarithms of ratios, estimated from all comparisons of a table.

    `logs` are the logarithms by implementation; `own` and `baseline` give the process of each sample. Implementations
    with one process are not tested.
    """

    def __init__(self, logs: Mapping[str, Sequence[float]], own: Mapping[str, str], baseline: str) -> None:
        varied = {name: process_variation(series, own.get(name, "")) for name, series in logs.items()}
        self._variations = {name: variation for name, variation in varied.items() if variation}
        of_baseline = [process_variation(series, baseline[: len(series)]) for series in logs.values()]
        if shared := _in_common([variation for variation in of_baseline if variation]):
            self._variations[""] = shared  # the baseline

    def tested(self, name: str) -> bool:
        """Whether this implementation or its baseline had more than one process."""
        return name in self._variations or "" in self._variations

    def spread(self, name: str) -> tuple[float, int]:
        """The between-process standard deviation, 0 where noise explains it, and its degrees of freedom."""
        own = [self._variations[name] for name in (name, "") if name in self._variations]
        outlier = _outlier(list(self._variations.values()))
        if outlier is not None and any(variation is outlier for variation in own):
            chosen = [outlier]
        else:
            chosen = [variation for variation in self._variations.values() if variation is not outlier]
        dof, squares = sum(variation.dof for variation in chosen), sum(variation.squares for variation in chosen)
        noise = sum(variation.dof * variation.noise for variation in chosen)
        if squares <= noise * _largest_ratio(dof):
            return 0.0, dof
        return math.sqrt((squares - noise) / dof), dof

    def error(self, name: str, level: float) -> float:
        """The half-width of the interval that differing processes add to the logarithm of a ratio."""
        if not self.tested(name):
            return 0.0
        deviation, dof = self.spread(name)
        counts = [self._variations[name].dof + 1 if name in self._variations else 1 for name in (name, "")]
        return deviation and student(dof, (1 - level) / 2) * deviation * math.sqrt(sum(1 / n for n in counts))


def process_variation(logs: Sequence[float], processes: str) -> ProcessVariation | None:
    """The variation of an implementation's processes; None for fewer than two processes.

    `logs` are logarithms of ratios, not of times, so that a disturbance of a whole round cancels. `processes` has a
    character for the process of each.
    """
    pairs = list(zip(logs, processes, strict=False))
    groups = [[log for log, process in pairs if process == name] for name in sorted(set(processes))]
    groups = [group for group in groups if len(group) > 1]
    if len(groups) < 2:
        return None
    medians = [median(group) for group in groups]
    centre = sum(medians) / len(medians)
    mad = median(abs(log - middle) for group, middle in zip(groups, medians, strict=True) for log in group)
    variance = MEDIAN_OF_NORMAL * (MAD_TO_DEVIATION * mad) ** 2
    noise = variance * sum(1 / len(group) for group in groups) / len(groups)
    return ProcessVariation(sum((middle - centre) ** 2 for middle in medians), len(medians) - 1, noise)


def _in_common(variations: Sequence[ProcessVariation]) -> ProcessVariation | None:
    """The variation of processes that several comparisons share: their median, which is robust to outliers."""
    if not variations:
        return None
    squares, noise = (median(getattr(variation, name) for variation in variations) for name in ("squares", "noise"))
    return ProcessVariation(squares, min(variation.dof for variation in variations), noise)


def _outlier(variations: Sequence[ProcessVariation]) -> ProcessVariation | None:
    """The variation that is far larger than all others; None without such an outlier, or with few others."""
    most = max(variations, key=lambda variation: variation.squares / variation.dof)
    others = [variation for variation in variations if variation is not most]
    if len(others) < MIN_OTHERS:
        return None
    usual = sum(variation.squares for variation in others) / sum(variation.dof for variation in others)
    usual = max(usual, sum(variation.noise for variation in others) / len(others))
    return most if most.squares / most.dof > OUTLYING * usual else None


@lru_cache(maxsize=64)
def _largest_ratio(dof: int) -> float:
    """The largest mean square by chance at the level of the test, as a multiple of the noise."""
    from scipy.special import chdtri

    return float(chdtri(dof, 1 - DIFFERING)) / dof


LEVEL = 0.99
"""The confidence level: an interval contains the true value with this probability, and a table makes a false claim with
the remaining probability at most. Of 30 tables, 0.3 then have a false claim on average at most, and 1.5 at the level
0.95."""


@dataclass(frozen=True)
class Interval:
    """A median and its confidence interval."""

    median: float
    low: float
    high: float


def interval(samples: Sequence[float], level: float = LEVEL) -> Interval:
    """The median and its distribution-free interval between two order statistics.

    It contains the median of independent samples with probability `level` at least. With too few samples it is
    unbounded. Raises ValueError without samples.

    Source: David and Nagaraja, Order Statistics (2003), section 7.1. Unlike a bootstrap it needs no random numbers and
    is not too narrow for few samples.
    """
    if not samples:
        raise ValueError("no samples, so no median")
    ordered = sorted(samples)
    rank = _rank(len(ordered), level)
    if rank == 0:
        return Interval(median(ordered), -math.inf, math.inf)
    return Interval(median(ordered), ordered[rank - 1], ordered[-rank])


def rounds_needed(comparisons: int) -> int:
    """The fewest rounds, or pairs of processes, with which one of `comparisons` comparisons can reach a verdict."""
    return math.ceil(1 - math.log2((1 - LEVEL) / max(comparisons, 1)))


def exponent(sizes: Sequence[float], values: Sequence[float], constant: float = 0.0) -> float | None:
    """The exponent with which values grow with the size, by least squares on logarithms, after subtracting a constant.

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


def lies_within(interval: Interval, low: float, high: float) -> bool | None:
    """Whether an interval is inside the closed range from `low` to `high`; None where it crosses an end."""
    if low <= interval.low and interval.high <= high:
        return True
    return False if interval.high < low or high < interval.low else None


@lru_cache(maxsize=4096)
def _rank(count: int, level: float) -> int:
    """The largest rank r such that order statistics r and count + 1 − r enclose the median at this level, or 0."""
    from scipy.special import bdtr  # the distribution of the number of samples below the median

    return sum(bool(bdtr(rank, count, 0.5) <= (1 - level) / 2 * (1 + 1e-9)) for rank in range(count // 2))
