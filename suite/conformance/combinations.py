"""How much a contract's array catches: mistakes that are made only where some levels meet, one for each such meeting.

Such an implementation gives the mistaken answer to rows that have those levels, and the right one to all others. So
each row is asked once of every mistake, and a mistake where levels meet is caught if a row that has them catches it.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor

from attnsuite.cases import Contract
from attnsuite.cases.contract import FULL, QUICK, CoveringArray
from attnsuite.cases.covering import Meeting, Row, met_in
from attnsuite.conformance.catching import catches, failure
from attnsuite.contracts import contract as contract_named
from attnsuite.model import Combinations, Meetings, UsageError

PARTS = 4
"""The rows of a process come in this many parts, so that no process waits long for another."""


def combinations(name: str, jobs: int, progress: Callable[[str], None] = lambda _: None) -> Combinations | None:
    """What the array of a contract covers and catches; None where it has none."""
    if contract_named(name).array is None:
        return None
    array = array_of(name)
    rows = array.rows(FULL, 0)
    caught = caught_in(name, rows, jobs)
    progress(f"{name}: {len(rows)} rows that combine features were asked of {len(array.mistakes())} mistakes")
    pairs, triples = (_met(array, rows, caught, fused) for fused in (False, True))
    return Combinations(len(array.rows(QUICK, 0)), len(rows), pairs, triples)


def array_of(name: str) -> CoveringArray:
    """The array of a contract. UsageError where it has none."""
    made = contract_named(name).array
    if made is None:
        raise UsageError(f"the contract {name} has no cases that combine features")
    return made()


def caught_in(name: str, rows: Sequence[Row], jobs: int) -> list[frozenset[str]]:
    """Which mistakes each of these rows of a contract's levels catches."""
    parts = [range(start, len(rows), jobs * PARTS) for start in range(jobs * PARTS)]
    found: list[frozenset[str]] = [frozenset()] * len(rows)
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        asked = pool.map(_part, [name] * len(parts), [[rows[place] for place in part] for part in parts])
        for part, caught in zip(parts, asked, strict=True):
            for place, names in zip(part, caught, strict=True):
                found[place] = names
    return found


def _part(name: str, rows: Sequence[Row]) -> list[frozenset[str]]:
    import torch

    torch.set_num_threads(1)
    contract = contract_named(name)
    return [caught_by(contract, row) for row in rows]


def caught_by(contract: Contract, row: Row) -> frozenset[str]:
    """Which mistakes a row catches: none where it fails the computations that they are made in, which are right."""
    array = array_of(contract.name)
    case = array.case(row)
    (dtype,) = case.dtypes
    calls = case.calls(dtype)
    truth = case.expected(calls, {})
    if any(failure(case, calls, truth, control) for control in contract.controls().values()):
        return frozenset()
    return frozenset(
        each.deviation.name
        for each in array.mistakes()
        if each.made_in(row.values()) and catches(case, calls, truth, each.deviation)
    )


def _met(array: CoveringArray, rows: Sequence[Row], caught: Sequence[frozenset[str]], fused: bool) -> Meetings:
    """How many pairs, or fused triples, there are, meet, and are caught where alone a mistake is made."""
    coverage = array.space.coverage(rows, fused)
    seen = seen_in(rows, caught, fused)
    wanted = array.wrong_only_where(fused)
    missed = [
        f"{name} {written(met)}" for name, mets in wanted.items() for met in mets if met not in seen.get(name, ())
    ]
    return Meetings(coverage.possible, coverage.met, sum(map(len, wanted.values())), tuple(missed))


def seen_in(rows: Iterable[Row], caught: Iterable[frozenset[str]], fused: bool) -> Mapping[str, set[Meeting]]:
    """By mistake, the pairs or triples that meet in some row that catches it."""
    seen: dict[str, set[Meeting]] = {}
    for row, names in zip(rows, caught, strict=True):
        for name in names:
            seen.setdefault(name, set()).update(met_in(row, fused))
    return seen


def written(meeting: Meeting) -> str:
    """Levels that meet, in words."""
    return " × ".join(level for _, level in meeting)
