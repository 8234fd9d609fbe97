"""When one implementation is called faster than another: the margin, the verdicts, and the comparisons of a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from attnsuite.model.statistics import LEVEL, Interval, Processes, dependences, interval, widening

MARGIN = 0.03
"""A ratio: times that differ by less count as the same. Smaller differences are found, but come and go with where a
process has its memory."""
ROUNDS_DEPEND, PROCESSES_DIFFER = "rounds depend on each other", "its processes differ"
"""Why a comparison is unclear where that is for what was found of rounds and processes, and not for the noise alone."""
VERDICTS = ("faster", "slower", "same", "unclear")
"""What can be said of an implementation beside the baseline."""


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
