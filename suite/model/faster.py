"""Speed comparisons of implementations: the margin, the verdicts, and the correction for several comparisons."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from attnsuite.model.statistics import LEVEL, Interval, Processes, dependences, interval, widening

MARGIN = 0.03
"""Times that differ by a smaller share count as the same. Smaller ones depend on the memory layout of a process."""
ROUNDS_DEPEND, PROCESSES_DIFFER = "rounds depend on each other", "its processes differ"
"""Why a comparison is inconclusive, if not for noise alone."""
INCONCLUSIVE = "unclear"
"""The word in stored results; messages print "inconclusive"."""
VERDICTS = ("faster", "slower", "same", INCONCLUSIVE)
"""The verdicts on an implementation, compared with the baseline."""


@dataclass(frozen=True)
class Comparison:
    """How much faster one implementation is than another: speed-up 2 is half the time.

    `speedup` is the median of the ratios within rounds, `low` and `high` its interval, corrected for all comparisons
    made together; `pairs` counts the rounds. The interval allows for dependent rounds and differing processes.
    """

    speedup: float
    low: float
    high: float
    pairs: int
    verdict: str
    why: str = ""
    """Why it is inconclusive, if not for noise alone: ROUNDS_DEPEND or PROCESSES_DIFFER."""


def compare(
    baseline: Sequence[float],
    others: Mapping[str, Sequence[float]],
    level: float = LEVEL,
    processes: Mapping[str, str] = MappingProxyType({}),
    baseline_processes: str = "",
) -> dict[str, Comparison]:
    """Each of the others against the baseline, by samples of the same rounds: sample i of both is of round i.

    `faster` or `slower` where the interval excludes 1 and the median lies beyond the margin; `same` where the interval
    lies within the margin; else INCONCLUSIVE. Levels are corrected for the number of comparisons by Holm's method, so
    that the probability of any false claim stays below 1 − level. `processes` and `baseline_processes` have a character
    for the process of each sample; without them processes are not tested.
    """
    logs = {
        name: [math.log(mine / theirs) for mine, theirs in zip(baseline, samples, strict=False)]
        for name, samples in others.items()
        if samples and baseline
    }
    tested = _Tested(dependences(logs), Processes(logs, processes, baseline_processes))
    comparisons: dict[str, Comparison] = {}
    alpha = 1 - level
    by_evidence = sorted(logs, key=lambda name: _sign_test(logs[name]))
    for position, name in enumerate(by_evidence):
        strict = 1 - alpha / (len(logs) - position)
        comparisons[name] = _compared(name, logs[name], strict, tested)
        if comparisons[name].verdict not in ("faster", "slower"):  # Holm: the level of the others is no lower
            rest = by_evidence[position + 1 :]
            return comparisons | {other: _compared(other, logs[other], strict, tested) for other in rest}
    return comparisons


@dataclass(frozen=True)
class _Tested:
    """The autocorrelation of the rounds of each comparison of a table, and the variation of processes."""

    rounds: Mapping[str, float]
    processes: Processes


def _compared(name: str, logs: Sequence[float], level: float, tested: _Tested) -> Comparison:
    """One comparison at a corrected level: by its rounds, widened for dependent rounds and differing processes."""
    plain, pairs, error = interval(logs, level), len(logs), tested.processes.error(name, level)
    wider = _scaled(plain, widening(tested.rounds[name]))
    by_rounds, comparison = judged(wider, pairs), judged(_blurred(wider, error), pairs)
    why = ""
    if comparison.verdict == INCONCLUSIVE:
        if by_rounds.verdict != INCONCLUSIVE or 2 * error > wider.high - wider.low:
            why = PROCESSES_DIFFER
        elif judged(plain, pairs).verdict != INCONCLUSIVE:
            why = ROUNDS_DEPEND
    return replace(comparison, why=why)


def judged(logs: Interval, pairs: int, least: float = MARGIN) -> Comparison:
    """The verdict on the interval of the logarithms of ratios; differences below the share `least` do not count."""
    margin = math.log1p(least)
    if logs.low > 0 and logs.median > margin:
        verdict = "faster"
    elif logs.high < 0 and logs.median < -margin:
        verdict = "slower"
    elif logs.low > -margin and logs.high < margin:
        verdict = "same"
    else:
        verdict = INCONCLUSIVE
    return Comparison(math.exp(logs.median), _exp(logs.low), _exp(logs.high), pairs, verdict)


def _scaled(plain: Interval, factor: float) -> Interval:
    """The interval, wider by this factor on either side of the median."""
    if factor == 1:
        return plain
    below, above = factor * (plain.median - plain.low), factor * (plain.high - plain.median)
    return Interval(plain.median, plain.median - below, plain.median + above)


def _blurred(plain: Interval, half: float) -> Interval:
    """The interval, wider by an independent error of this half-width."""
    if not half:
        return plain
    below, above = math.hypot(plain.median - plain.low, half), math.hypot(plain.high - plain.median, half)
    return Interval(plain.median, plain.median - below, plain.median + above)


def _exp(value: float) -> float:
    return math.exp(value) if value < math.inf else math.inf


def _sign_test(logs: Sequence[float]) -> float:
    """The two-sided probability of such an uneven division into signs without a difference."""
    above, below = sum(value > 0 for value in logs), sum(value < 0 for value in logs)
    fewer, count = min(above, below), above + below
    return min(1.0, 2 * sum(math.comb(count, k) for k in range(fewer + 1)) / 2**count) if count else 1.0
