"""Runs of one machine → series of what each implementation took, with the steps in them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from attnsuite.model import Change, Point, Run, Series, Snapshot, Timed
from attnsuite.results.history import marks, steps
from attnsuite.results.history.alike import with_suspicion

LEAST_MEMORY = 2**20
"""Bytes: smaller peaks are some pages, which come and go with where a process has its memory."""
VERDICTS = {"ratio": ("slower", "faster"), "time": ("slower", "faster"), "memory": ("more", "less")}
"""What a step up and a step down of each quantity are called."""


def series_of(kept: Sequence[Snapshot]) -> list[Series]:
    """The series of one machine, by contract, timed table, implementation and quantity."""
    runs = {of.run.id: of.run for of in kept}
    found = _series(kept)
    by_quantity: dict[str, list[Series]] = defaultdict(list)
    for each in found:
        by_quantity[each.quantity].append(each)
    with_steps = (_with_steps(of, runs) for of in by_quantity.values())
    return sorted(with_suspicion([each for of in with_steps for each in of]), key=_place)


def _place(of: Series) -> tuple[str, ...]:
    return (of.contract, of.table, of.implementation, of.quantity, of.baseline)


def _series(kept: Sequence[Snapshot]) -> list[Series]:
    """The series without their steps."""
    points: dict[tuple[str, ...], list[Point]] = defaultdict(list)
    like: dict[tuple[str, ...], Timed] = {}
    for of in kept:
        for timed in of.timed:
            for quantity, point in _points(of.run.id, timed):
                key = (quantity, timed.baseline if quantity == "ratio" else "", *timed.key)
                points[key].append(point)
                like[key] = timed
    machine = kept[0].run.machine.name
    return [_made(machine, key[0], key[1], like[key], of) for key, of in points.items()]


def _points(run: str, of: Timed) -> Iterator[tuple[str, Point]]:
    if of.ratio and of.implementation != of.baseline:
        yield "ratio", Point(run, of.ratio, of.ratio_low, of.ratio_high)
    elif of.median:
        yield "time", Point(run, of.median, of.low, of.high)
    if of.peak is not None and of.peak >= LEAST_MEMORY:
        yield "memory", Point(run, of.peak)


def _made(machine: str, quantity: str, baseline: str, of: Timed, points: Sequence[Point]) -> Series:
    table = (of.workload, of.dtype, of.device, of.threads, of.direction, of.cache)
    return Series(machine, of.implementation, of.contract, *table, quantity, baseline, tuple(points))


def _with_steps(of: Sequence[Series], runs: Mapping[str, Run]) -> Iterator[Series]:
    """All series of one quantity with their steps: they are tested together."""
    logs = [[math.log(point.value) for point in each.points] for each in of]
    found = steps.of_all(logs)
    for each, those in zip(of, found, strict=True):
        changes = tuple(_change(each, step, runs) for step in those)
        yield replace(each, changes=changes, breaks=tuple(_breaks(each, runs)))


def _change(of: Series, step: steps.Step, runs: Mapping[str, Run]) -> Change:
    after, run = of.points[step.at - 1].run, of.points[step.at].run
    verdict = VERDICTS[of.quantity][step.ratio < 1]
    unlike = (*marks.surroundings(runs[after], runs[run]), *_sources(of, runs[after], runs[run]))
    return Change(run, after, step.ratio, step.low, step.high, verdict, unlike)


def _sources(of: Series, before: Run, now: Run) -> Iterator[str]:
    return marks.sources(before, now, of.implementation, of.baseline)


def _breaks(of: Series, runs: Mapping[str, Run]) -> Iterator[str]:
    for before, now in pairwise(point.run for point in of.points):
        if marks.breaks(runs[before], runs[now], of.baseline):
            yield now
