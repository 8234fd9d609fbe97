"""Times and peaks of memory that two runs have in common, as ratios with what their machine's runs differ by."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median
from typing import Protocol

from attnsuite.model import Measurement, Run, Status
from attnsuite.model.compared import BETTER, MEMORY, TIME, UNCLEAR, WORSE, Ratio
from attnsuite.model.statistics import LEVEL, MARGIN, Interval, interval, judged
from attnsuite.results.comparison.spread import Spread, nearest, width
from attnsuite.results.store import Recorded

RESOLUTION = 2.0**20
"""Bytes by which the peak of the same call may differ from run to run: allocators keep some pages more or less."""
NO_SPREAD = "how far its runs lie apart is not known: `attnsuite audit --between-runs` measures it"
TOO_FEW = "too few rounds"


class Judgeable(Protocol):
    """The logarithm of a ratio of two rows, with an interval for each probability of error."""

    @property
    def old(self) -> Measurement: ...
    @property
    def new(self) -> Measurement: ...
    @property
    def why(self) -> str:
        """Why nothing can be said of it, or empty."""

    @property
    def surprise(self) -> float:
        """Larger where it is less likely that there is no difference."""

    def interval(self, doubt: float) -> Interval: ...


@dataclass(frozen=True)
class Difference:
    """The logarithm of a ratio, and its standard deviation as `runs` runs of the machine told it; `why` where that is
    not known.
    """

    old: Measurement
    new: Measurement
    log: float
    deviation: float
    runs: int = 0
    why: str = ""

    @property
    def surprise(self) -> float:
        return -math.inf if self.why else abs(self.log) / max(self.deviation, 1e-9)

    def interval(self, doubt: float) -> Interval:
        half = math.inf if self.why else width(self.deviation, self.runs, doubt)
        return Interval(self.log, self.log - half, self.log + half)


def times(old: Recorded, new: Recorded, known: Sequence[Spread], margin: float = MARGIN) -> list[Ratio]:
    """The ratios of all times that both have, in the order of rows. `margin`: smaller differences count as none.

    Each is of an implementation's time beside the baseline's, where both runs have that unchanged in the same table;
    of its time alone otherwise. Its standard deviation is that of two runs of the same code on this machine, and that
    of both medians. Levels are corrected by Holm's method for all ratios together, as in `statistics.compare`.
    """
    differences = list(_differences(old, new, known))
    return judged_together(differences, margin)


def judged_together(differences: Sequence[Judgeable], margin: float = MARGIN) -> list[Ratio]:
    """The differences as ratios, in their order, with a false claim among them at most as often as LEVEL says."""
    ratios: dict[int, Ratio] = {}
    doubt, still = 1 - LEVEL, True
    by_surprise = sorted(range(len(differences)), key=lambda place: -differences[place].surprise)
    share = doubt / max(able := sum(not of.why for of in differences), 1)
    for position, place in enumerate(by_surprise):
        if still and position < able:  # those of which nothing is known come last
            share = doubt / (able - position)
        ratios[place] = _time(differences[place], share, margin)
        still = still and ratios[place].verdict in (WORSE[TIME], BETTER[TIME])
    return [ratios[place] for place in range(len(differences))]


def memories(old: Recorded, new: Recorded, margin: float = MARGIN) -> list[Ratio]:
    """The ratios of all peaks that both have, in the order of rows, with the resolution of what is measured."""
    return [memory(one, other, margin) for one, other in _pairs(old, new) if one.peak is not None]


def memory(old: Measurement, new: Measurement, margin: float = MARGIN) -> Ratio:
    """What both peaks come to. They are `same` where they lie within RESOLUTION of each other."""
    before, after = max(old.peak or 0.0, 1.0), max(new.peak or 0.0, 1.0)
    low = max(after - RESOLUTION, 1.0) / (before + RESOLUTION)
    high = (after + RESOLUTION) / (before - RESOLUTION) if before > RESOLUTION else math.inf
    if abs(after - before) <= RESOLUTION:
        verdict = "same"
    else:
        of = Interval(math.log(after / before), math.log(low), math.log(high))
        verdict = _verdict(MEMORY, of, margin)
    return Ratio(MEMORY, new, before, after, after / before, low, high, verdict)


def _time(of: Judgeable, doubt: float, margin: float) -> Ratio:
    found = of.interval(doubt)
    low, high = (math.exp(min(end, 700.0)) if end < math.inf else math.inf for end in (found.low, found.high))
    before, after = (median(row.seconds) for row in (of.old, of.new))
    verdict = UNCLEAR if of.why else _verdict(TIME, found, margin)
    return Ratio(TIME, of.new, before, after, math.exp(found.median), low, high, verdict, of.why)


def _verdict(what: str, of: Interval, margin: float) -> str:
    """The verdict on the logarithm of a ratio of the new to the old."""
    verdict = judged(Interval(-of.median, -of.high, -of.low), 1, margin).verdict
    return {"faster": BETTER[what], "slower": WORSE[what]}.get(verdict, verdict)


def of_one_run(old: Recorded, new: Recorded) -> int:
    """How many measurements are the same row of the same run on both sides, and so are not compared."""
    return len({(run, row.key) for run, row in old.measured} & {(run, row.key) for run, row in new.measured})


def _pairs(old: Recorded, new: Recorded) -> Iterator[tuple[Measurement, Measurement]]:
    before = {row.key: (run, row) for run, row in old.measured}
    for run, row in new.measured:
        its, other = before.get(row.key, (run, row))
        if its != run and other.status == row.status == Status.MEASURED:
            yield other, row


def _differences(old: Recorded, new: Recorded, known: Sequence[Spread]) -> Iterator[Difference]:
    sides = [_Timed(old), _Timed(new)]
    for one, other in _pairs(old, new):
        beside = _unchanged(sides, one)
        logs = [side.logs(row, beside) for side, row in zip(sides, (one, other), strict=True)]
        medians = [interval(each) for each in logs]
        log = medians[1].median - medians[0].median
        spread = nearest(known, interval(other.seconds).median, other.threads)
        errors = [_error(each) for each in medians]
        if spread is None:
            yield Difference(one, other, log, math.inf, why=NO_SPREAD)
        elif not all(map(math.isfinite, errors)):
            yield Difference(one, other, log, math.inf, why=TOO_FEW)
        else:
            between = spread.of_ratios if beside else spread.of_times
            deviation = math.sqrt(2 * between**2 + sum(error**2 for error in errors))
            yield Difference(one, other, log, deviation, spread.runs)


def _error(of: Interval) -> float:
    """The standard error of a median, of its interval."""
    return (of.high - of.low) / (2 * NormalDist().inv_cdf((1 + LEVEL) / 2))


class _Timed:
    """The measurements of a side by what was timed, and the runs that they are of."""

    def __init__(self, recorded: Recorded) -> None:
        self._rows = {row.key: (recorded.runs[identity], row) for identity, row in recorded.measured}

    def run(self, row: Measurement) -> Run:
        return self._rows[row.key][0]

    def baseline(self, row: Measurement) -> Measurement | None:
        """The baseline in the same table of the same run; None where it is not there, or is what is compared."""
        run = self.run(row)
        facts = run.facts.contracts.get(row.contract)
        key = (f"{row.contract}/{facts.baseline if facts else ''}", *row.table)
        there, found = self._rows.get(key, (None, None))
        return found if found and there == run and found.seconds and key != row.key else None

    def logs(self, row: Measurement, beside: bool) -> list[float]:
        """The logarithms of its samples, or of their ratios to the baseline's of the same rounds."""
        mine = self._rows[row.key][1]
        base = self.baseline(mine) if beside else None
        if base is None:
            return [math.log(sample) for sample in mine.seconds]
        return [math.log(sample / its) for sample, its in zip(mine.seconds, base.seconds, strict=False)]


def _unchanged(sides: Sequence[_Timed], row: Measurement) -> bool:
    """Whether both sides have the baseline beside it, of the same source, with the same versions of libraries."""
    found = [(side.run(row), side.baseline(row)) for side in sides]
    if any(base is None for _, base in found):
        return False
    (one, base), (other, _) = found
    name = base.implementation if base else ""
    known = bool(one.sources.get(name)) and one.sources.get(name) == other.sources.get(name)
    return known and _libraries(one) == _libraries(other)


def _libraries(run: Run) -> dict[str, str]:
    return {name: version for name, version in run.versions.items() if name != "attnsuite"}
