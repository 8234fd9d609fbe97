"""Rows held against others of their run: what one table shares, the work of one workload, products in other dtypes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple, TypeAlias

from attnsuite.model import CACHES, Learned, Measurement, Status
from attnsuite.results.store.contents import Placed
from attnsuite.results.store.ranges import AGED_SLACK, HALF, RATE_SLACK, is_beyond

WIDENED = "float32"
"""What kernels widen half types to before they multiply."""
OTHER_WORK = "times the work"
"""What a row says whose conventions ask for other work than the contract does."""
Complaints: TypeAlias = Iterator[tuple[Placed, str]]


class Timed(NamedTuple):
    """A measurement with a time, and where its row stands."""

    at: Placed
    row: Measurement


def unlike_others(placed: Sequence[Placed]) -> Complaints:
    """Each record that cannot be beside others of its run, and why."""
    timed = [
        Timed(each, each.record)
        for each in placed
        if isinstance(each.record, Measurement) and each.record.status == Status.MEASURED
    ]
    yield from _differing(timed, lambda of: (of.at.run, of.row.contract, *of.row.table), _ceilings, "of its table")
    alike = [each for each in timed if OTHER_WORK not in each.row.detail]
    yield from _differing(alike, _workload, lambda of: of.row.work, "of this workload")
    yield from _unwitnessed(timed)
    yield from _out_of_reach(timed)
    yield from _trained_otherwise(placed)


def without_ceilings(placed: Iterable[Placed]) -> int:
    """How many times were measured where nothing says what the machine reached."""
    records = (each.record for each in placed)
    return sum(isinstance(each, Measurement) and bool(each.seconds) and not each.ceilings for each in records)


def _ceilings(of: Timed) -> Mapping[str, float]:
    return of.row.ceilings


def _workload(of: Timed) -> Hashable:
    return of.at.run, of.row.contract, of.row.workload, of.row.dtype, of.row.direction


def _differing(
    rows: Iterable[Timed],
    shared_by: Callable[[Timed], Hashable],
    what: Callable[[Timed], Mapping[str, float]],
    others: str,
) -> Complaints:
    """Rows that differ from the first with which they share what is the same for all."""
    first: dict[Hashable, Timed] = {}
    for each in rows:
        before = first.setdefault(shared_by(each), each)
        mine, theirs = what(each), what(before)
        for name in sorted({*mine, *theirs}):
            if mine.get(name) != theirs.get(name):
                field = "ceilings" if what is _ceilings else "work"
                there, due = (f"{of[name]:.6g}" if name in of else "not there" for of in (mine, theirs))
                yield (
                    each.at,
                    f"{field}.{name:.40} is {there}, and {due} in line {before.at.line}, which is {others} as well",
                )
                break


def _unwitnessed(timed: Sequence[Timed]) -> Complaints:
    """Times that the suite's own clock would have been held against, in a run in which it was."""
    witnessed = {each.at.run for each in timed if each.row.own_clock is not None}
    for at, row in timed:
        is_looked_at = row.cache == CACHES[0] and row.direction != "backward"
        if at.run in witnessed and is_looked_at and row.own_clock is None:
            yield at, "it has no own_clock, and other times of its run have one"


def _out_of_reach(timed: Sequence[Timed]) -> Complaints:
    """Work in half types in less time than a product took for it, in half or in float32.

    A processor without products of half types multiplies them more slowly than a kernel does that widens its inputs
    first. Where no product in float32 was timed, in this run or another, nothing is held.
    """
    known: dict[tuple[str, int], dict[str, Mapping[str, float]]] = defaultdict(dict)
    for at, row in timed:
        if row.dtype == WIDENED and "flops" in row.ceilings:
            known[row.device, row.threads][at.run] = row.ceilings
    for at, row in timed:
        wide = known[row.device, row.threads]
        if row.dtype not in HALF or "flops" not in row.ceilings or not wide:
            continue
        found = [row.ceilings, wide[at.run]] if at.run in wide else [row.ceilings, *wide.values()]
        aged = at.run not in wide or any("age" in each for each in found)
        slack, which = (AGED_SLACK, "an earlier run") if aged else (RATE_SLACK, "this run")
        reached = max(each["flops"] for each in found)
        if is_beyond(row, reached * slack):
            rate = row.work["attended"] / median(row.seconds)
            said = f"{rate:.3g} FLOPs per second are more than the {reached:.3g} of a matrix product in {which}"
            yield at, f"{said}, in {row.dtype} or {WIDENED}"


def _trained_otherwise(placed: Iterable[Placed]) -> Complaints:
    """Trainings of one task in one run whose task was another."""
    first: dict[Hashable, tuple[Placed, Learned]] = {}
    for each in placed:
        if not isinstance(of := each.record, Learned):
            continue
        at, before = first.setdefault((each.run, of.task), (each, of))
        for name in ("config", "printed"):
            if _task(of, name) != _task(before, name):
                yield each, f"{name} is not that of line {at.line}, which is of the same task"


def _task(of: Learned, name: str) -> Any:
    return dict(getattr(of, name))
