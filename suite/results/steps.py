"""Steps of a series of runs: lasting changes of its level, with at least two runs on either side.

1. A median of three neighbours removes outliers of one run, and keeps every level of two runs or more.
2. `ruptures` places candidates: the optimal partition into levels of at least two runs (Killick et al., 2012, PELT).
3. All candidates are tested on the unfiltered runs. Until all are significant, the weakest is dropped.

The test is a moderated t-test between the medians of the two levels (Smyth, 2004). A few runs are a poor estimate of a
series' spread, so the estimate is combined with the usual spread of the machine's series. LEVEL is that of all places
in all series of a machine together (Bonferroni). Steps within MARGIN do not count.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from attnsuite.model import UsageError
from attnsuite.model.faster import MARGIN
from attnsuite.model.statistics import LEVEL, MAD_TO_DEVIATION, student

MIN_RUNS = 2
"""Runs on either side of a step."""
PENALTY = 2.0
"""The penalty of a further level, in squared standard deviations times log(runs): small, because a test follows."""
USUAL = 0.01
"""The least usual spread between runs, as a share: the same code in another process on a quiet machine."""
USUAL_DOF = 4
"""Degrees of freedom of the usual spread in the test (the prior): spreads of a machine's series differ by 2×."""
MAX_DISTANCE = 3.0
"""Standard deviations to which distances from a level are limited, so that one outlier hides no step."""
MIN_ON_SIDE = 0.75
"""The share of a level's runs that have to lie on its side of a step: all of two or three."""


@dataclass(frozen=True)
class Step:
    """A step of a series: from point `at` on (counted from 0), the level is `ratio` times the level before."""

    at: int
    ratio: float
    low: float
    high: float


def steps_of(series: Sequence[Sequence[float]]) -> list[list[Step]]:
    """The steps of all series of a machine; a series is the logarithms of its values, one per run."""
    long = sum(len(logs) >= 2 * MIN_RUNS for logs in series)
    usual = usual_spread(series)
    return [steps(logs, usual, long) for logs in series]


def steps(logs: Sequence[float], usual: float = USUAL, series: int = 1) -> list[Step]:
    """The steps of a series of logarithms, which is one of `series` series of a machine."""
    starts = candidates(logs)
    while starts:
        tested = [_tested(logs, starts, place, usual, series) for place in range(len(starts))]
        strengths = [_strength(step) * _is_clear(logs, starts, place) for place, step in enumerate(tested)]
        if min(strengths) > 0:
            return tested
        del starts[strengths.index(min(strengths))]
    return []


def candidates(logs: Sequence[float]) -> list[int]:
    """The indices where levels may begin, in order. UsageError if `ruptures` is not installed."""
    if len(logs) < 2 * MIN_RUNS:
        return []
    try:
        import numpy
        from ruptures import Pelt
    except ImportError as error:
        raise UsageError(f"steps need ruptures ({error}): pip install attnsuite[history]") from None
    scale = max(MAD_TO_DEVIATION * median(abs(b - a) for a, b in pairwise(logs)) / math.sqrt(2), USUAL / 4)
    inner = [sorted(logs[place - 1 : place + 2])[1] for place in range(1, len(logs) - 1)]
    calm = numpy.array([inner[0], *inner, inner[-1]])
    search = Pelt(model="l2", min_size=MIN_RUNS, jump=1).fit((calm - calm.mean()) / scale)
    return list(search.predict(pen=PENALTY * math.log(len(logs))))[:-1]


def spread(logs: Sequence[float], starts: Sequence[int], usual: float = USUAL) -> tuple[float, int]:
    """The standard deviation of runs from their level, and its degrees of freedom."""
    distances = [abs(value - median(part)) for part in _parts(logs, starts) for value in part]
    dof = len(logs) - len(starts) - 1
    limit = MAX_DISTANCE * max(MAD_TO_DEVIATION * median(distances), usual)
    return math.sqrt(sum(min(distance, limit) ** 2 for distance in distances) / dof) if dof > 0 else 0.0, dof


def usual_spread(series: Sequence[Sequence[float]]) -> float:
    """The usual spread of series: the median of their spreads, but at least USUAL."""
    spreads = [spread(logs, candidates(logs))[0] for logs in series if len(logs) >= 2 * MIN_RUNS]
    return max(USUAL, median(spreads)) if spreads else USUAL


def _parts(logs: Sequence[float], starts: Sequence[int]) -> list[Sequence[float]]:
    return [logs[a:b] for a, b in zip((0, *starts), (*starts, len(logs)), strict=True)]


def _tested(logs: Sequence[float], starts: Sequence[int], place: int, usual: float, series: int) -> Step:
    """The step at one of the candidates, with its interval."""
    before, after = _parts(logs, starts)[place : place + 2]
    own, dof = spread(logs, starts, usual)
    sigma = math.sqrt((USUAL_DOF * usual**2 + dof * own**2) / (USUAL_DOF + dof))
    error = sigma * math.sqrt(_variance(len(before)) + _variance(len(after)))
    alpha = (1 - LEVEL) / series / max(1, len(logs) - 2 * MIN_RUNS + 1)
    half = student(USUAL_DOF + dof, alpha / 2) * error
    shift = median(after) - median(before)
    return Step(starts[place], math.exp(shift), math.exp(shift - half), math.exp(shift + half))


def _is_clear(logs: Sequence[float], starts: Sequence[int], place: int) -> bool:
    """Whether nearly all runs of both levels lie on their side of the middle between the levels."""
    before, after = _parts(logs, starts)[place : place + 2]
    low, high = sorted((before, after), key=median)
    middle = (median(low) + median(high)) / 2
    shares = sum(value < middle for value in low) / len(low), sum(value > middle for value in high) / len(high)
    return min(shares) >= MIN_ON_SIDE


def _variance(count: int) -> float:
    """The variance of a median of `count` normal values: π/2 times that of a mean, or that of a mean for one or two
    values.
    """
    return (1 if count <= 2 else math.pi / 2) / count


def _strength(step: Step) -> float:
    """The distance of a step's interval from 1, as a logarithm; 0 or less if the step is not significant."""
    if abs(math.log(step.ratio)) <= math.log1p(MARGIN):
        return 0.0
    return math.log(step.low) if step.ratio > 1 else -math.log(step.high)
