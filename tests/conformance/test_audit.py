"""What the audit counts as killing a mutant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import torch
from checks import implementation
from torch import Tensor

from attnsuite.cases import Contract, Mutant
from attnsuite.cases.contract import CoveringArray, LocalMutant
from attnsuite.conformance import audit
from attnsuite.conformance.audit import (
    array_of,
    combinations,
    kills_mutant,
    meetings_killed,
    other_arrays,
    other_seeds,
)
from attnsuite.conformance.case_tests import Implementation
from attnsuite.contracts import contract
from attnsuite.contracts.attention.cases import combined
from attnsuite.model import UsageError


def is_caught(function: Callable[..., Any]) -> bool:
    case = contract("attention").cases()[0]
    calls = case.calls("float32")
    return kills_mutant(case, calls, case.expected(calls, {}), Mutant("mistaken", "it is wrong", function))


def zeros(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return torch.zeros_like(query)


def refuses(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    raise ValueError("this size is not supported")


def misspells(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return torch.zeros_like(querry)  # type: ignore[name-defined]  # noqa: F821


def miscalls(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    step: Any = lambda scores: scores  # noqa: E731
    answer: Tensor = step(query, key)
    return answer


@pytest.mark.parametrize("function", [zeros, refuses])
def test_a_wrong_result_and_an_error_kill_a_mutant(function: Callable[..., Any]) -> None:
    assert is_caught(function)


def misnames(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    def step(*, scores: Tensor) -> Tensor:
        return scores

    answer: Tensor = step(score=query)  # type: ignore[call-arg]
    return answer


@pytest.mark.parametrize("function", [misspells, miscalls, misnames])
def test_a_slip_in_the_code_of_a_mutant_is_not_its_mistake(function: Callable[..., Any]) -> None:
    assert not is_caught(function)


# Covering arrays


def test_a_mistake_is_caught_where_levels_meet_in_a_row_that_catches_it() -> None:
    rows = [{"a": "a1", "b": "b1"}, {"a": "a2", "b": "b1"}]
    seen = meetings_killed(rows, [frozenset({"slip"}), frozenset()], fused=False)
    assert seen == {"slip": {(("a", "a1"), ("b", "b1"))}}


@pytest.mark.slow
def test_mistakes_of_gradients_need_gradients() -> None:
    local = LocalMutant(None, frozenset({"dq", "dqkv"}))  # type: ignore[arg-type]
    assert local.made_in(["e8", "dqkv"])
    assert not local.made_in(["e8", "dv"])
    wanted = array_of("attention").wrong_only_where(fused=False)
    assert (("gradient", "dq"), ("width", "e65")) in wanted["gradient_of_query_loses_a_number"]
    assert (("gradient", "dv"), ("width", "e65")) not in wanted["gradient_of_query_loses_a_number"]
    assert (("gradient", "dv"), ("width", "e65")) in wanted["one_query_loses_a_key"]


@pytest.mark.slow
def test_what_no_row_catches_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    blind = frozenset({"one_query_loses_a_key"})
    monkeypatch.setattr(audit, "killed_in", lambda name, rows, jobs: [blind] * len(rows))
    found = combinations("attention", 1)
    assert found is not None
    assert found.pairs.met == found.pairs.possible
    assert not any(each.startswith("one_query_loses_a_key") for each in found.pairs.survived)
    assert "last_column_is_not_written causal × e65" in found.pairs.survived
    assert found.survived[0] in found.pairs.survived


def test_a_contract_without_combinations_has_none() -> None:
    assert combinations("add_norm", 1) is None
    with pytest.raises(UsageError, match="add_norm has no cases that combine features"):
        array_of("add_norm")


# Other seeds


@pytest.mark.slow
def test_a_contract_runs_with_each_seed() -> None:
    said: list[str] = []

    found = other_seeds("positional_encoding", seeds=2, jobs=1, progress=said.append)

    assert found.seeds == len(said) == 2
    assert found.accusations == ()
    assert found.results > 100
    assert 0 < found.largest < 2


def test_an_accusation_names_the_seed_of_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong where the first query is positive, which chance decides: one seed alone would not show it."""

    def kernel(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        output = torch.nn.functional.scaled_dot_product_attention(query, key, value, **options)
        return output * 2 if query.flatten()[0] > 0 else output

    def only(of: Contract, stack: ExitStack) -> Iterator[Implementation]:
        yield implementation(kernel, parameters=frozenset({"query", "key", "value"}))

    monkeypatch.setattr(audit, "correct", only)
    monkeypatch.setattr(audit, "PARTS_PER_SEED", 15)

    accused = [{outcome.case for outcome in audit._with_seed("attention", number, 0)[0]} for number in (1, 2, 3)]

    assert all(accused)
    assert accused[0] != accused[1] != accused[2]


def test_a_failure_in_another_array_is_an_accusation(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = combined.array().rows("quick")[:6]
    monkeypatch.setattr(CoveringArray, "rows", lambda array, profile, seed=0: rows)
    monkeypatch.setattr(audit, "correct", lambda of, stack: [implementation(lambda query, key, value, **_: query * 0)])

    accused, answers, _ = audit._with_array("attention", 1, 0)

    assert accused
    assert len(accused) <= answers


def test_a_contract_that_combines_nothing_has_no_other_arrays() -> None:
    assert other_arrays("add_norm", 2, 1) is None
