"""How far times of the same code lie apart from run to run of one machine, as the audit of the stopwatch stored it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from attnsuite.model.quantiles import student
from attnsuite.model.repeated import Repeated

FEWEST_RUNS = 5
"""Runs at least: with fewer, Student's t makes every interval wider than differences that anybody looks for."""


@dataclass(frozen=True)
class Spread:
    """What was found of one workload on a number of threads, in so many runs.

    `of_ratios` and `of_times` are the standard deviations, between runs, of the logarithms of an implementation's time
    beside the baseline's and of its time alone; `seconds` is what a call takes.
    """

    workload: str
    threads: int
    runs: int
    seconds: float
    of_ratios: float
    of_times: float


def spreads(rows: Iterable[Repeated]) -> list[Spread]:
    """The spreads of workloads that at least FEWEST_RUNS runs have timed."""
    alike: dict[tuple[str, int], list[Repeated]] = {}
    for row in rows:
        alike.setdefault((row.workload, row.threads), []).append(row)
    found = [_spread(workload, threads, members) for (workload, threads), members in alike.items()]
    return [spread for spread in found if spread.runs >= FEWEST_RUNS]


def nearest(known: Sequence[Spread], seconds: float, threads: int) -> Spread | None:
    """The spread of the workload whose calls take most nearly as long, on as many threads; None where there is none."""
    able = [spread for spread in known if spread.threads == threads]
    return min(able, key=lambda spread: abs(math.log(spread.seconds / seconds)), default=None)


def width(deviation: float, runs: int, doubt: float) -> float:
    """How far a value with this standard deviation may be off, with this probability that it is farther.

    `runs` told the deviation. The value is taken to be normal: Student's t with one degree of freedom less than runs,
    for implementations of one run share its baseline, and are no further runs.
    """
    return student(runs - 1, doubt / 2) * deviation


def _spread(workload: str, threads: int, rows: Sequence[Repeated]) -> Spread:
    places = {row.place for row in rows}
    by_place = {place: [row for row in rows if row.place == place] for place in places}
    return Spread(
        workload,
        threads,
        len({row.run for row in rows}),
        median(row.seconds for row in rows),
        _deviation([[math.log(row.ratio) for row in of] for place, of in by_place.items() if place]),
        _deviation([[math.log(row.seconds) for row in of] for of in by_place.values()]),
    )


def _deviation(groups: Iterable[Sequence[float]]) -> float:
    """The standard deviation within groups, pooled over them; infinite where no group tells one."""
    squares, degrees = 0.0, 0
    for values in groups:
        centre = fmean(values)
        squares += sum((value - centre) ** 2 for value in values)
        degrees += len(values) - 1
    return math.sqrt(squares / degrees) if degrees else math.inf
