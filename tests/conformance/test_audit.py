"""What the audit counts as catching a deviation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from attnsuite.cases import Mutant
from attnsuite.conformance.catching import catches
from attnsuite.contracts import contract


def is_caught(function: Callable[..., Any]) -> bool:
    case = contract("attention").cases()[0]
    calls = case.calls("float32")
    return catches(case, calls, case.expected(calls, {}), Mutant("mistaken", "it is wrong", function))


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
def test_a_mistake_is_caught_by_what_it_answers_or_raises(function: Callable[..., Any]) -> None:
    assert is_caught(function)


def misnames(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    def step(*, scores: Tensor) -> Tensor:
        return scores

    answer: Tensor = step(score=query)  # type: ignore[call-arg]
    return answer


@pytest.mark.parametrize("function", [misspells, miscalls, misnames])
def test_a_slip_in_the_code_of_a_deviation_is_not_its_mistake(function: Callable[..., Any]) -> None:
    assert not is_caught(function)
