"""The audit of a contract: every mutant must be killed, every family needed, and no correct variant accused."""

from __future__ import annotations

import math
import multiprocessing
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from attnsuite import machine, registry
from attnsuite.cases import Call, Case, Contract, Mutant, Variant, list_tests
from attnsuite.cases.contract import FULL, QUICK, CoveringArray
from attnsuite.cases.covering import Meeting, Row, met_in
from attnsuite.cases.tensors import seed
from attnsuite.conformance.case_tests import CaseTests, Implementation
from attnsuite.conformance.check import Check
from attnsuite.conformance.known import known_bugs
from attnsuite.conformance.request import CaseDtype, CheckRequest
from attnsuite.conformance.session import Session
from attnsuite.contracts import contract as contract_named
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import (
    COMBINED,
    EXEMPT,
    FAILURES,
    Audit,
    Combinations,
    LevelCoverage,
    Outcome,
    SeedAudit,
    Status,
    UsageError,
)
from attnsuite.registry import from_function
from attnsuite.worker.calling import run_calls

Kill = tuple[str, str, str]
"""A mutant, the case that killed it, and the dtype."""
Progress = Callable[[str], None]
SLIP = re.compile(
    r"(NameError|UnboundLocalError|ImportError|ModuleNotFoundError|SyntaxError): "
    r"|TypeError: .*\(\) (takes \d+ positional|missing \d+ required|got an unexpected keyword)"
)
"""Python's errors in the code of a mutant, which are not its mistake."""
COMPILED = frozenset({"flex"})
"""Shipped implementations that other seeds skip: compiling them for every shape takes minutes a seed."""
PARTS_PER_JOB = 4
"""Parts for each process, so that processes end at about the same time."""
PARTS_PER_SEED = 8


def silent(message: str) -> None:
    """Discard messages."""


def audit(name: str, progress: Progress = silent, jobs: int | None = None, seeds: int = 0, arrays: int = 0) -> Audit:
    """Run the whole audit of a contract, its cases divided between `jobs` processes (by default one per core).

    Correct implementations are also tested with the numbers of `seeds` further seeds, and on `arrays` other covering
    arrays. Mutants run on all cases but those that combine features, which have mutants of their own.
    """
    contract = contract_named(name)
    cases, mutants = contract.cases(), contract.mutants()
    jobs = jobs or os.cpu_count() or 1
    progress(f"{name}: {len(mutants)} mutants on {len(cases)} cases in {jobs} processes")
    kills: list[Kill] = []
    complaints: list[str] = []
    parts = [range(start, len(cases), jobs * PARTS_PER_JOB) for start in range(jobs * PARTS_PER_JOB)]
    for number, (killed, complained) in enumerate(_in_processes(_kills, jobs, [(name, part) for part in parts]), 1):
        kills += killed
        complaints += complained
        progress(f"{number} of {len(parts)} parts: {len({kill[0] for kill in kills})} mutants killed so far")
    variants, accusations = run_correct_variants(contract, cases, CaseTests(contract, keep=True), progress)
    return Audit(
        kills={mutant.name: _by_family(mutant.name, kills) for mutant in mutants},
        mistakes={mutant.name: mutant.says for mutant in mutants},
        sources={mutant.name: mutant.source for mutant in mutants},
        families=Counter(case.family for case in cases),
        variants=variants,
        accusations=accusations,
        controls=complaints,
        contract=name,
        exempt=exempt(contract),
        combinations=combinations(name, jobs, progress),
        redrawn=other_seeds(name, seeds, jobs, progress) if seeds else None,
        rearranged=other_arrays(name, arrays, jobs, progress) if arrays else None,
    )


def exempt(contract: Contract) -> frozenset[str]:
    """The families that need not kill a mutant alone: documents' examples, and the core, which is mandatory.

    The core of `attention` is not exempt: its plain cases kill mutants that no other family kills.
    """
    return EXEMPT if contract.strict_core else EXEMPT | {contract.core}


def _in_processes(function: Callable[..., Any], jobs: int, arguments: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    """The results of a function with these arguments, in their order; of one job, in this process."""
    if jobs == 1:
        yield from map(function, *zip(*arguments, strict=True))
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        yield from pool.map(function, *zip(*arguments, strict=True))


def _by_family(mutant: str, kills: Sequence[Kill]) -> dict[str, frozenset[str]]:
    cases: dict[str, set[str]] = defaultdict(set)
    for name, case, dtype in kills:
        if name == mutant:
            cases[case.split("/")[0]].add(f"{case} {dtype}")
    return {family: frozenset(names) for family, names in sorted(cases.items())}


# Mutants


def _kills(name: str, places: Sequence[int]) -> tuple[list[Kill], list[str]]:
    """The mutants that some of the cases kill, and complaints about the controls, which are correct."""
    contract = contract_named(name)
    cases, mutants = contract.cases(), contract.mutants()
    kills: list[Kill] = []
    complaints: list[str] = []
    for case, dtype in list_tests((cases[place] for place in places), "cpu"):
        calls = case.calls(dtype)
        expected = case.expected(calls, {})
        for control, function in contract.controls().items():
            if verdict := failure(case, calls, expected, function):
                complaints.append(f"{control} fails {case.name} ({dtype}): {verdict.detail}")
        kills += [
            (mutant.name, case.name, dtype)
            for mutant in (mutants if case.family != COMBINED else ())
            if dtype in mutant.dtypes and kills_mutant(case, calls, expected, mutant)
        ]
    return kills, complaints


def failure(case: Case, calls: tuple[Call, ...], expected: object, function: Callable[..., object]) -> Verdict | None:
    """The verdict on a function if it fails the case, else None."""
    replies = run_calls(function, calls)
    if any(reply.unsupported for reply in replies):
        return None
    verdict = case.verdict(calls, replies, expected)
    return verdict if verdict.status in FAILURES else None


def kills_mutant(case: Case, calls: tuple[Call, ...], expected: object, mutant: Mutant) -> bool:
    """Whether a case kills a mutant by its mistake."""
    return shows_the_mistake(case, expected, failure(case, calls, expected, mutant.function))


def shows_the_mistake(case: Case, expected: object, verdict: Verdict | None) -> bool:
    """Whether a mutant's failure, if it fails, is that of its mistake.

    Where error bounds are loose only NaN and infinity count: the rest is chance.
    """
    if verdict is None or SLIP.search(verdict.detail):
        return False
    return case.counts(expected) or verdict.error_ratio == math.inf


# Correct implementations


def run_correct_variants(
    contract: Contract, cases: Sequence[Case], inputs: CaseTests, progress: Progress = silent
) -> tuple[dict[str, str], list[Outcome]]:
    """Run every correct variant on every case; returns the style of each, and accusations."""
    styles: dict[str, str] = {}
    accusations: list[Outcome] = []
    tests, bugs = list_tests(cases, "cpu"), known_bugs(contract.known_bugs, machine.versions())
    for variant in contract.variants():
        styles[variant.name] = variant.says
        outcomes = list(Check(variant_implementation(variant, contract), inputs, tests, bugs).run())
        accused = [outcome for outcome in outcomes if outcome.fails]
        accusations += accused
        count = sum(outcome.status == Status.PASSED for outcome in outcomes)
        progress(f"{variant.name}: {count} passed, {len(accused)} accusations")
    return styles, accusations


def variant_implementation(variant: Variant, contract: Contract) -> Implementation:
    """A correct variant, which runs in this process: it is part of the suite, and does not crash."""
    declaration = from_function(variant.function, contract.name, variant.name).declaration
    declaration = replace(declaration, contract="variants", lacks=variant.lacks, conventions=variant.conventions)
    run = partial(run_calls, variant.function)
    return Implementation(declaration, contract, run, run)


def correct(contract: Contract, stack: ExitStack) -> Iterator[Implementation]:
    """The correct variants, and the shipped implementations that need no library."""
    for variant in contract.variants():
        yield variant_implementation(variant, contract)
    session = Session(CheckRequest())
    for shipped in registry.discover():
        if shipped.contract == contract.name and not (
            shipped.requires or shipped.broken or shipped.name in COMPILED or shipped.backend
        ):
            check = session.check(shipped, stack, prestart=False)
            if isinstance(check, Check):
                yield replace(check.implementation, run_isolated=check.implementation.run)


Task = tuple[str, int, int]
"""A contract, the number of a seed or an array, and the number of a part."""
Part = tuple[list[Outcome], int, float]
"""The accusations, how many results were judged, and the largest error, in error bounds, of those that passed."""


def other_seeds(name: str, seeds: int, jobs: int, progress: Progress = silent) -> SeedAudit:
    """Run every correct implementation of a contract on all tests, with the numbers of further seeds."""
    tasks = [(name, number, part) for number in range(1, seeds + 1) for part in range(PARTS_PER_SEED)]
    return _redrawn(_with_seed, "seed", seeds, jobs, tasks, progress)


def other_arrays(name: str, arrays: int, jobs: int, progress: Progress = silent) -> SeedAudit | None:
    """Run one correct implementation after the other on other covering arrays; None where a contract has none."""
    if contract_named(name).array is None:
        return None
    tasks = [(name, number, PARTS_PER_SEED - 1) for number in range(1, arrays + 1)]
    return _redrawn(_with_array, "array", arrays, jobs, tasks, progress)


def _redrawn(
    function: Callable[..., Part], what: str, count: int, jobs: int, tasks: Sequence[Task], progress: Progress
) -> SeedAudit:
    accusations: list[tuple[int, Outcome]] = []
    judged, largest = 0, 0.0
    results = _in_processes(function, jobs, tasks)
    for (name, number, part), (accused, count_of_part, error) in zip(tasks, results, strict=True):
        accusations += [(number, outcome) for outcome in accused]
        judged, largest = judged + count_of_part, max(largest, error)
        if part == PARTS_PER_SEED - 1:
            progress(f"{name}: {what} {number} of {count}: {len(accusations)} accusations in {judged} results so far")
    return SeedAudit(count, judged, largest, tuple(accusations))


def _with_seed(name: str, number: int, part: int) -> Part:
    """Every correct implementation on every eighth case, with the numbers of one seed."""
    contract = contract_named(name)
    with seed(number), ExitStack() as stack:
        tests, inputs = list_tests(contract.cases()[part::PARTS_PER_SEED], "cpu"), CaseTests(contract, keep=True)
        parts = [_judged(implementation, inputs, tests) for implementation in correct(contract, stack)]
    accused = [outcome for accusations, _, _ in parts for outcome in accusations]
    return accused, sum(judged for _, judged, _ in parts), max((error for _, _, error in parts), default=0.0)


def _with_array(name: str, number: int, _: int) -> Part:
    """One correct implementation on the covering array of one seed, with its numbers."""
    contract = contract_named(name)
    with seed(number), ExitStack() as stack:
        tests, implementations = list_tests(array_of(name).cases(QUICK, number), "cpu"), list(correct(contract, stack))
        return _judged(implementations[number % len(implementations)], CaseTests(contract, keep=False), tests)


def _judged(implementation: Implementation, inputs: CaseTests, tests: Sequence[CaseDtype]) -> Part:
    bugs = known_bugs(implementation.contract.known_bugs, machine.versions())
    outcomes = list(Check(implementation, inputs, tests, bugs).outcomes(tests))
    passed = [outcome for outcome in outcomes if outcome.status == Status.PASSED]
    accused = [outcome for outcome in outcomes if outcome.fails]
    return accused, len(passed) + len(accused), max((outcome.error_ratio or 0.0 for outcome in passed), default=0.0)


# The covering array: mutants that are wrong only where some levels meet, one for each such meeting. Such a mutant gives
# the wrong result in rows that have those levels, and the right one in all others. So each row runs every mistake once,
# and the mutant of a meeting is killed if a row that has these levels kills the mistake.


def combinations(name: str, jobs: int, progress: Progress = silent) -> Combinations | None:
    """What the covering array of a contract covers and kills; None where it has none."""
    if contract_named(name).array is None:
        return None
    array = array_of(name)
    rows = array.rows(FULL, 0)
    killed = killed_in(name, rows, jobs)
    progress(f"{name}: {len(rows)} rows that combine features ran on {len(array.mistakes())} mutants")
    pairs, triples = (_level_coverage(array, rows, killed, fused) for fused in (False, True))
    return Combinations(len(array.rows(QUICK, 0)), len(rows), pairs, triples)


def array_of(name: str) -> CoveringArray:
    """The covering array of a contract. UsageError where it has none."""
    make = contract_named(name).array
    if make is None:
        raise UsageError(f"the contract {name} has no cases that combine features")
    return make()


def killed_in(name: str, rows: Sequence[Row], jobs: int) -> list[frozenset[str]]:
    """The mistakes that each of these rows kills."""
    count = jobs * PARTS_PER_JOB
    killed: list[frozenset[str]] = [frozenset()] * len(rows)
    parts = [(name, rows[start::count]) for start in range(count)]
    for start, mistakes in enumerate(_in_processes(_killed_in_part, jobs, parts)):
        killed[start::count] = mistakes
    return killed


def _killed_in_part(name: str, rows: Sequence[Row]) -> list[frozenset[str]]:
    return [killed_by(contract_named(name), row) for row in rows]


def killed_by(contract: Contract, row: Row) -> frozenset[str]:
    """The mistakes that a row kills; none where it fails a control, which is correct."""
    array = array_of(contract.name)
    case = array.case(row)
    (dtype,) = case.dtypes
    calls = case.calls(dtype)
    expected = case.expected(calls, {})
    if any(failure(case, calls, expected, control) for control in contract.controls().values()):
        return frozenset()
    return frozenset(
        mistake.mutant.name
        for mistake in array.mistakes()
        if mistake.made_in(row.values()) and kills_mutant(case, calls, expected, mistake.mutant)
    )


def _level_coverage(
    array: CoveringArray, rows: Sequence[Row], killed: Sequence[frozenset[str]], fused: bool
) -> LevelCoverage:
    """How many pairs, or fused triples, exist, meet in a row, and are killed."""
    coverage = array.space.coverage(rows, fused)
    seen, wanted = meetings_killed(rows, killed, fused), array.wrong_only_where(fused)
    missed = [
        f"{name} {' × '.join(level for _, level in meeting)}"
        for name, meetings in wanted.items()
        for meeting in meetings
        if meeting not in seen.get(name, ())
    ]
    return LevelCoverage(coverage.possible, coverage.met, sum(map(len, wanted.values())), tuple(missed))


def meetings_killed(rows: Sequence[Row], killed: Sequence[frozenset[str]], fused: bool) -> Mapping[str, set[Meeting]]:
    """By mistake, the pairs or triples that meet in a row that kills it."""
    seen: dict[str, set[Meeting]] = defaultdict(set)
    for row, names in zip(rows, killed, strict=True):
        for name in names:
            seen[name].update(met_in(row, fused))
    return seen
