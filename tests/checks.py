"""Helpers for tests of the runner: a function as an implementation, and the outcomes of its cases."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor

from attnsuite import registry
from attnsuite.conformance.case_tests import CaseTests, Implementation
from attnsuite.conformance.check import Check
from attnsuite.conformance.known import Known
from attnsuite.conformance.request import CheckRequest
from attnsuite.contracts.attention.contract import CONTRACT
from attnsuite.model import EVERY_CASE, Outcome
from attnsuite.registry import Declaration
from attnsuite.worker.calling import run_calls

Function = Callable[..., Any]

CASES = {case.name: case for case in CONTRACT.cases()}

WAYS = ("run", "run_isolated", "run_overlapped")
NOWHERE = Declaration("attention", "mine", "attention", "")


def implementation(function: Function, **declared: Any) -> Implementation:
    """An implementation that runs the function in this process, with other declarations or ways to run."""
    run = partial(run_calls, function)
    ways = {"run": run, "run_isolated": run} | {name: declared.pop(name) for name in WAYS if name in declared}
    declaration = replace(registry.from_function(function).declaration, name="mine", **declared)
    return Implementation(declaration, CONTRACT, **ways)


def check(
    function: Function,
    *cases: str,
    dtypes: Sequence[str] = ("float32",),
    known: Sequence[Known] = (),
    earlier: Sequence[Outcome] = (),
    **declared: Any,
) -> list[Outcome]:
    tests = CheckRequest(cases, tuple(dtypes)).tests(CONTRACT)
    return list(
        Check(implementation(function, **declared), CaseTests(CONTRACT, keep=True), tests, known, earlier).run()
    )


def only(outcomes: Iterable[Outcome]) -> Outcome:
    (outcome,) = outcomes
    return outcome


def statuses(outcomes: Iterable[Outcome]) -> set[str]:
    return {outcome.status for outcome in outcomes}


def about(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """The outcomes about the whole implementation: details by case."""
    return {outcome.case: outcome.detail for outcome in outcomes if outcome.dtype == EVERY_CASE}


def counted(function: Function) -> tuple[Function, list[tuple[Any, ...]]]:
    """The function, and a list of the shapes of keys in its calls."""
    asked: list[tuple[Any, ...]] = []

    def counting(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
        asked.append((tuple(key.shape), *sorted(options)))
        return function(query, key, value, **options)

    return counting, asked


def refuse(reason: str, *_: object, **__: object) -> None:
    """A function that raises NotImplementedError with a reason, to be bound first."""
    raise NotImplementedError(reason)
