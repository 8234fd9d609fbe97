"""Other numbers, and other combinations of features: whoever is accused then, and is correct, is accused by luck."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

from attnsuite import machine, registry
from attnsuite.cases import Case, Contract, Variant, list_tests
from attnsuite.cases.contract import QUICK
from attnsuite.cases.tensors import seed
from attnsuite.conformance import findings
from attnsuite.conformance.findings import Finding
from attnsuite.conformance.questions import Questions, Subject
from attnsuite.conformance.runner import Check
from attnsuite.conformance.session import CheckRequest, Session
from attnsuite.contracts import contract as contract_named
from attnsuite.model import Outcome, Redrawn, Status
from attnsuite.registry import from_function
from attnsuite.worker import ask

COMPILED = frozenset({"flex"})
"""Shipped implementations that are left out, because they are compiled for every shape: that takes minutes a seed."""
PARTS = 8
"""How many parts the cases of a seed are divided into: enough that processes end together, whatever a case costs."""

Part = tuple[list[Outcome], int, float]
"""The accusations, how many answers were judged, and the largest error in bounds among those that passed."""


def redrawn(name: str, seeds: int, jobs: int, progress: Callable[[str], None] = lambda _: None) -> Redrawn:
    """Ask every stranger and every shipped eager implementation of a contract all questions, under so many seeds."""
    asked = [(number, part) for number in range(1, seeds + 1) for part in range(PARTS)]
    accusations: list[tuple[int, Outcome]] = []
    answers, largest = 0, 0.0
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = pool.map(partial(_part, name), *zip(*asked, strict=True))
        for (number, part), (accused, judged, error) in zip(asked, found, strict=True):
            accusations += [(number, outcome) for outcome in accused]
            answers, largest = answers + judged, max(largest, error)
            if part == PARTS - 1:
                progress(
                    f"{name}: seed {number} of {seeds}: {len(accusations)} accusations in {answers} answers so far"
                )
    return Redrawn(seeds, answers, largest, tuple(accusations))


def rearranged(name: str, arrays: int, jobs: int, progress: Callable[[str], None] = lambda _: None) -> Redrawn | None:
    """Draw so many other arrays of a contract's levels, and ask each of one correct implementation, in turn.

    None where the contract combines nothing.
    """
    if contract_named(name).array is None:
        return None
    accusations: list[tuple[int, Outcome]] = []
    answers, largest = 0, 0.0
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for number, (accused, judged, error) in enumerate(
            pool.map(partial(_array, name), range(1, arrays + 1)), start=1
        ):
            accusations += [(number, outcome) for outcome in accused]
            answers, largest = answers + judged, max(largest, error)
            progress(f"{name}: array {number} of {arrays}: {len(accusations)} accusations in {answers} answers so far")
    return Redrawn(arrays, answers, largest, tuple(accusations))


def _array(name: str, number: int) -> Part:
    """What one process asks: the array of one seed, with its numbers, of one correct implementation."""
    import torch

    torch.set_num_threads(1)
    contract = contract_named(name)
    assert contract.array is not None
    with seed(number), ExitStack() as stack:
        asked = list_tests(contract.array().cases(QUICK, number), "cpu")
        everyone = list(correct(contract, stack))
        known = findings.load(contract.findings, machine.versions())
        return _asked(everyone[number % len(everyone)], Questions(contract, keep=False), asked, known)


def _part(name: str, number: int, part: int) -> Part:
    """What one process asks: everyone, every eighth case, with the numbers of one seed."""
    import torch

    torch.set_num_threads(1)
    contract, accusations, answers, largest = contract_named(name), list[Outcome](), 0, 0.0
    with seed(number), ExitStack() as stack:
        asked, kept = list_tests(contract.cases()[part::PARTS], "cpu"), Questions(contract, keep=True)
        known = findings.load(contract.findings, machine.versions())
        for subject in correct(contract, stack):
            accused, judged, error = _asked(subject, kept, asked, known)
            accusations, answers, largest = accusations + accused, answers + judged, max(largest, error)
    return accusations, answers, largest


def _asked(subject: Subject, made: Questions, asked: Sequence[tuple[Case, str]], known: Sequence[Finding]) -> Part:
    """What comes of asking one implementation these questions."""
    check = Check(subject, made, asked, known)
    asking = (check.question(*each) for each in asked)
    outcomes = [check.concluded(question, check.answered(question)) for question in asking]
    passed = [outcome for outcome in outcomes if outcome.status == Status.PASSED]
    accused = [outcome for outcome in outcomes if outcome.fails]
    return accused, len(passed) + len(accused), max((outcome.error_ratio or 0.0 for outcome in passed), default=0.0)


def correct(contract: Contract, stack: ExitStack) -> Iterator[Subject]:
    """The strangers whose libraries are there, and the shipped implementations that need none and are not compiled."""
    for stranger in contract.variants():
        if not lacking(stranger):
            yield stranger_as_subject(stranger, contract)
    session = Session(CheckRequest())
    for each in registry.discover():
        if each.contract == contract.name and not (each.requires or each.broken or each.name in COMPILED or each.plug):
            check = session.check(each, stack, foresee=False)
            if isinstance(check, Check):
                yield replace(check.subject, ask_apart=check.subject.ask)


def lacking(stranger: Variant) -> Sequence[str]:
    """The libraries that a stranger needs and that are not installed."""
    return [library for library in stranger.requires if find_spec(library) is None]


def stranger_as_subject(stranger: Variant, contract: Contract) -> Subject:
    """A stranger as the runner sees it, asked in this process: strangers are part of the suite, and do not crash."""
    loaded = from_function(stranger.function, contract.name, stranger.name)
    parameters = loaded.declaration.parameters
    in_process = partial(ask, stranger.function)
    return Subject(
        f"strangers/{stranger.name}",
        contract,
        ask=in_process,
        ask_apart=in_process,
        parameters=None if parameters is None else frozenset(parameters),
        lacks=stranger.lacks,
        conventions=stranger.conventions,
    )
