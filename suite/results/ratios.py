"""Ratios of times and of peak memory between two sides, with intervals and verdicts.

Times of stored runs have no verdict, because runs of the same code differ by more than their samples show.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import median

from msgspec.structs import replace

from attnsuite.model import Measurement, Status, faster
from attnsuite.model.comparison import BETTER, INCONCLUSIVE, MEMORY, TIME, WORSE, Ratio
from attnsuite.model.faster import MARGIN, judged
from attnsuite.model.rows import METER_ERROR
from attnsuite.model.statistics import LEVEL, Interval, rounds_needed
from attnsuite.results.recorded import MachineRecord

RUNS_DIFFER = "runs of the same code differ, too; `compare --interleaved` times both sides now, `history` finds steps"
TOO_FEW_PAIRS = "too few pairs of processes"
FEWEST_PAIRS = 12
"""Fewest pairs of processes. A process may be some per cent faster or slower than another of the same code throughout.
With offsets of 2 % (a standard deviation), twelve pairs find a slowdown of 5 % nine times out of ten."""


def judged_together(differences: Sequence[PairedTimes], margin: float = MARGIN) -> list[Ratio]:
    """The differences as ratios, in their order, by Holm's method: the probability of any false claim is 1 − LEVEL."""
    ratios: dict[int, Ratio] = {}
    alpha, rejecting = 1 - LEVEL, True
    by_evidence = sorted(range(len(differences)), key=lambda place: -differences[place].evidence)
    share = alpha / max(able := sum(not difference.why for difference in differences), 1)
    for position, place in enumerate(by_evidence):
        if rejecting and position < able:  # those without a verdict come last
            share = alpha / (able - position)
        ratios[place] = _time(differences[place], share, margin)
        rejecting = rejecting and ratios[place].verdict in (WORSE[TIME], BETTER[TIME])
    return [ratios[place] for place in range(len(differences))]


def _time(difference: PairedTimes, alpha: float, margin: float) -> Ratio:
    logs = difference.interval(alpha)
    low, high = (math.exp(min(end, 700.0)) if end < math.inf else math.inf for end in (logs.low, logs.high))
    before, after = (median(row.seconds) for row in (difference.old, difference.new))
    verdict = INCONCLUSIVE if difference.why else _verdict(TIME, logs, margin)
    return Ratio(TIME, difference.new, before, after, math.exp(logs.median), low, high, verdict, difference.why)


def _verdict(what: str, logs: Interval, margin: float) -> str:
    """The verdict on the logarithm of a ratio, new to old."""
    verdict = judged(Interval(-logs.median, -logs.high, -logs.low), 1, margin).verdict
    return {"faster": BETTER[what], "slower": WORSE[what], faster.INCONCLUSIVE: INCONCLUSIVE}.get(verdict, verdict)


def memory(old: Measurement, new: Measurement, margin: float = MARGIN) -> Ratio:
    """The ratio of both peaks. Its verdict is `same` if they differ by at most METER_ERROR."""
    before, after = max(old.peak or 0.0, 1.0), max(new.peak or 0.0, 1.0)
    low = max(after - METER_ERROR, 1.0) / (before + METER_ERROR)
    high = (after + METER_ERROR) / (before - METER_ERROR) if before > METER_ERROR else math.inf
    if abs(after - before) <= METER_ERROR:
        verdict = "same"
    else:
        verdict = _verdict(MEMORY, Interval(math.log(after / before), math.log(low), math.log(high)), margin)
    return Ratio(MEMORY, new, before, after, after / before, low, high, verdict)


# Two runs.


def times_of_runs(old: MachineRecord, new: MachineRecord) -> list[Ratio]:
    """The ratios of all times that both sides have, in the order of rows, without a verdict.

    A ratio is of times relative to the baseline's if both runs have it in the same table, and of times alone otherwise.
    """
    relative, ratios = (_relative(old), _relative(new)), []
    for before, after in _pairs(old, new):
        times = median(before.seconds), median(after.seconds)
        former, current = (side.get(after.key, 0.0) for side in relative)
        ratio = current / former if former and current else times[1] / times[0]
        ratios.append(Ratio(TIME, after, *times, ratio, 0.0, math.inf, INCONCLUSIVE, RUNS_DIFFER))
    return ratios


def memories_of_runs(old: MachineRecord, new: MachineRecord, margin: float = MARGIN) -> list[Ratio]:
    """The ratios of all peaks that both sides have, in the order of rows."""
    return [memory(before, after, margin) for before, after in _pairs(old, new) if before.peak is not None]


def of_one_run(old: MachineRecord, new: MachineRecord) -> int:
    """The number of measurements that are the same row of the same run on both sides; they are not compared."""
    return len({(run, row.key) for run, row in old.measured} & {(run, row.key) for run, row in new.measured})


def _pairs(old: MachineRecord, new: MachineRecord) -> Iterator[tuple[Measurement, Measurement]]:
    before = {row.key: (run, row) for run, row in old.measured}
    for run, row in new.measured:
        old_run, other = before.get(row.key, (run, row))
        if old_run != run and other.status == row.status == Status.MEASURED:
            yield other, row


def _relative(recorded: MachineRecord) -> dict[tuple[str, ...], float]:
    """The median times of rows, as multiples of that of their contract's baseline in the same table of the same run."""
    medians = {(run, row.key): median(row.seconds) for run, row in recorded.measured if row.seconds}
    relative = {}
    for run, row in recorded.measured:
        facts = recorded.runs[run].facts.contracts.get(row.contract)
        baseline = (f"{row.contract}/{facts.baseline if facts else ''}", *row.table)
        if row.seconds and baseline != row.key and (run, baseline) in medians:
            relative[row.key] = medians[run, row.key] / medians[run, baseline]
    return relative


# Pairs of processes, one of each side, timed in the same rounds.


@dataclass(frozen=True)
class PairedTimes:
    """The times of a workload in pairs of processes: for each pair, the rows of both sides."""

    pairs: Sequence[tuple[Measurement, Measurement]]

    @cached_property
    def logs(self) -> list[float]:
        """For each pair the median over rounds of the logarithm of the new time as a multiple of the old."""
        rounds = [zip(old.seconds, new.seconds, strict=False) for old, new in self.pairs]
        return [median(math.log(new / old) for old, new in pair) for pair in rounds]

    @cached_property
    def old(self) -> Measurement:
        """The old side's row, with the median time of each of its processes."""
        return _summary([old for old, _ in self.pairs])

    @cached_property
    def new(self) -> Measurement:
        """The new side's row, likewise."""
        return _summary([new for _, new in self.pairs])

    @property
    def why(self) -> str:
        """Why there is no verdict, or an empty text."""
        return TOO_FEW_PAIRS if len(self.pairs) < rounds_needed(1) else ""

    @property
    def evidence(self) -> float:
        """The negative probability of so large a difference by chance."""
        return -probability(self.logs)

    def interval(self, alpha: float) -> Interval:
        """Return the interval of the ratio's logarithm at a level of 1 − alpha."""
        return signed_rank(self.logs, 1 - alpha)


def times(paired: Sequence[PairedTimes], margin: float = MARGIN) -> list[Ratio]:
    """The ratios of times in pairs, judged together, those without a verdict last; none below `margin` is claimed."""
    return judged_together(sorted(paired, key=lambda pairs: bool(pairs.why)), margin)


def memories(paired: Sequence[PairedTimes], margin: float = MARGIN) -> list[Ratio]:
    """The ratios of peaks, of the median pair of those that were measured."""
    known = ([p for p in timed.pairs if p[0].peak is not None and p[1].peak is not None] for timed in paired)
    ratios = [sorted((memory(*pair, margin) for pair in pairs), key=lambda ratio: ratio.ratio) for pairs in known]
    return [ratio[len(ratio) // 2] for ratio in ratios if ratio]


def pairs_of(comparisons: int) -> int:
    """The number of pairs of processes for this many comparisons."""
    return max(FEWEST_PAIRS, rounds_needed(comparisons))


def _summary(rows: Sequence[Measurement]) -> Measurement:
    return replace(rows[0], seconds=tuple(median(row.seconds) for row in rows))


def signed_rank(values: Sequence[float], level: float) -> Interval:
    """The Hodges–Lehmann estimate (the median of the means of all pairs of values), with the interval of the
    signed-rank test.

    The interval is exact if differences are symmetric about the true one, as between two processes of the same code; no
    other shape is assumed. It is unbounded if the values are too few for the level. Raises ValueError without values.

    Source: Hollander, Wolfe and Chicken, Nonparametric Statistical Methods (2014), sections 3.2 and 3.3.
    """
    if not values:
        raise ValueError("no differences, so no median")
    means = sorted((value + other) / 2 for place, value in enumerate(values) for other in values[place:])
    rank = _rank(len(values), level)
    if rank == 0:
        return Interval(median(means), -math.inf, math.inf)
    return Interval(median(means), means[rank - 1], means[-rank])


def probability(values: Sequence[float]) -> float:
    """The two-sided p-value of the signed-rank test for values without a difference."""
    means = [value + other for place, value in enumerate(values) for other in values[place:]]
    above, below = sum(mean > 0 for mean in means), sum(mean < 0 for mean in means)
    ways = sum(_counts(len(values))[: min(above, below) + 1])
    return min(1.0, math.ldexp(2 * ways, -len(values)))


@lru_cache(maxsize=4096)
def _rank(count: int, level: float) -> int:
    """The largest rank r so that the means r-th from either end enclose the median at this level; 0 for none."""
    alpha, tail, rank = (1 - level) / 2, 0, 0
    for ways in _counts(count):
        tail += ways
        if tail / 2**count > alpha * (1 + 1e-9):
            return rank
        rank += 1
    return rank


@lru_cache(maxsize=64)
def _counts(count: int) -> tuple[int, ...]:
    """The number of subsets of the ranks 1 to `count` with each sum, from 0 on."""
    ways = [1]
    for rank in range(1, count + 1):
        longer = ways + [0] * rank
        ways = [before + (longer[total - rank] if total >= rank else 0) for total, before in enumerate(longer)]
    return tuple(ways)
