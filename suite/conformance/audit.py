"""The suite against itself: every deviation must be caught, every family needed, and no correct stranger accused."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor

from attnsuite import machine
from attnsuite.cases import Case, Contract, list_tests
from attnsuite.conformance import findings
from attnsuite.conformance.catching import catches, failure
from attnsuite.conformance.combinations import combinations
from attnsuite.conformance.questions import Questions
from attnsuite.conformance.redrawn import lacking, rearranged, redrawn, stranger_as_subject
from attnsuite.conformance.runner import Check
from attnsuite.contracts import contract as contract_named
from attnsuite.model import COMBINED, EXEMPT, Audit, Outcome, Status

Catch = tuple[str, str, str]
"""A deviation, the case that caught it, and the dtype."""


def audit(
    name: str,
    progress: Callable[[str], None] = lambda _: None,
    jobs: int | None = None,
    seeds: int = 0,
    arrays: int = 0,
) -> Audit:
    """Run the whole audit of a contract, its cases spread over `jobs` processes (by default one per core).

    Correct implementations are asked with the numbers of so many further `seeds`, and so many other `arrays` of
    features, too. Deviations are asked of all cases but those that combine features, which have mistakes of their own.
    """
    contract = contract_named(name)
    cases = contract.cases()
    jobs = jobs or os.cpu_count() or 1
    progress(f"{name}: {len(contract.mutants())} mutants on {len(cases)} cases in {jobs} processes")
    shards = [range(start, len(cases), jobs * 4) for start in range(jobs * 4)]
    caught: list[Catch] = []
    controls: list[str] = []
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for number, (found, complaints) in enumerate(pool.map(_shard, [name] * len(shards), shards), start=1):
            caught += found
            controls += complaints
            progress(f"{number} of {len(shards)} parts: {len({catch[0] for catch in caught})} deviations caught so far")
    strangers, absent, accusations = ask_strangers(contract, cases, Questions(contract, keep=True), progress)
    deviations = contract.mutants()
    return Audit(
        catches={deviation.name: _by_family(deviation.name, caught) for deviation in deviations},
        says={deviation.name: deviation.says for deviation in deviations},
        sources={deviation.name: deviation.source for deviation in deviations},
        families=Counter(case.family for case in cases),
        strangers=strangers,
        accusations=accusations,
        controls=controls,
        absent=absent,
        contract=name,
        exempt=exempt(contract),
        combinations=combinations(name, jobs, progress),
        redrawn=redrawn(name, seeds, jobs, progress) if seeds else None,
        rearranged=rearranged(name, arrays, jobs, progress) if arrays else None,
    )


def exempt(contract: Contract) -> frozenset[str]:
    """The families that need not catch a deviation alone: documents' examples, and the core that nobody may decline.

    The core of `attention` is not exempt: its plain cases catch mistakes that nothing else does.
    """
    return EXEMPT if contract.strict_core else EXEMPT | {contract.core}


def _by_family(deviation: str, caught: Sequence[Catch]) -> dict[str, frozenset[str]]:
    cases: dict[str, set[str]] = defaultdict(set)
    for name, case, dtype in caught:
        if name == deviation:
            cases[case.split("/")[0]].add(f"{case} {dtype}")
    return {family: frozenset(names) for family, names in sorted(cases.items())}


def _shard(name: str, chosen: Sequence[int]) -> tuple[list[Catch], list[str]]:
    """The part of one process: what all deviations and all controls do on some of the cases."""
    import torch

    torch.set_num_threads(1)
    contract = contract_named(name)
    cases, deviations, controls = contract.cases(), contract.mutants(), contract.controls()
    caught: list[Catch] = []
    complaints: list[str] = []
    for case, dtype in list_tests((cases[index] for index in chosen), "cpu"):
        calls = case.calls(dtype)
        truth = case.expected(calls, {})
        for control, function in controls.items():
            if failed := failure(case, calls, truth, function):
                complaints.append(f"{control} fails {case.name} ({dtype}): {failed.detail}")
        caught += [
            (deviation.name, case.name, dtype)
            for deviation in (deviations if case.family != COMBINED else ())
            if dtype in deviation.dtypes and catches(case, calls, truth, deviation)
        ]
    return caught, complaints


def ask_strangers(
    contract: Contract, cases: Sequence[Case], kept: Questions, progress: Callable[[str], None] = lambda _: None
) -> tuple[dict[str, str], dict[str, str], list[Outcome]]:
    """Ask every stranger every case. Returns those asked, those whose library is missing, and the accusations."""
    present: dict[str, str] = {}
    absent: dict[str, str] = {}
    accusations: list[Outcome] = []
    asked = list_tests(cases, "cpu")
    known = findings.load(contract.findings, machine.versions())
    for stranger in contract.variants():
        if libraries := lacking(stranger):
            absent[stranger.name] = f"No module named {libraries[0]!r}"
            continue
        present[stranger.name] = stranger.says
        outcomes = list(Check(stranger_as_subject(stranger, contract), kept, asked, known).run())
        accusations += [outcome for outcome in outcomes if outcome.fails]
        count = sum(outcome.status == Status.PASSED for outcome in outcomes)
        progress(f"{stranger.name}: {count} passed, {sum(outcome.fails for outcome in outcomes)} accusations")
    return present, absent, accusations
