"""What is left from one call to the next is seen by three calls, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

import attnsuite
from attnsuite.cases.formula import RepeatedCase
from attnsuite.contracts import contract, names
from attnsuite.contracts.blocks.positionwise_ffn.deviations import Network
from attnsuite.worker import ask

ASKED = [name for name in names() if any(isinstance(case, RepeatedCase) for case in contract(name).cases())]


def said(function: Callable[..., Any]) -> str:
    (outcome,) = attnsuite.check(function, contract="positionwise_ffn", cases="again", dtypes="float32")
    assert outcome.status == "wrong"
    return outcome.detail


def test_every_formula_is_asked_again() -> None:
    models = {"attention", "seq2seq_attention", "transformer", "vision_transformer"}

    assert set(ASKED) == set(names()) - models - {"token_masking"}, "maskings are asked with one seed after the other"


def test_the_third_call_has_other_numbers_in_the_tensors_of_the_second() -> None:
    case = next(case for case in contract("positionwise_ffn").cases() if isinstance(case, RepeatedCase))
    first, second, third = case.calls("float32")

    assert not any(torch.equal(first.tensors[name], second.tensors[name]) for name in first.tensors)
    assert not any(torch.equal(second.tensors[name], third.tensors[name]) for name in first.tensors)
    assert [call.same_storage for call in (first, second, third)] == [False, False, True]
    places: list[int] = []
    ask(lambda x, *weights: places.append(x.data_ptr()), case.calls("float32"))
    assert places[1] == places[2]


def test_an_answer_that_is_written_over_is_told_so() -> None:
    @cache
    def place(shape: tuple[int, ...]) -> Tensor:
        return torch.empty(shape)

    def writes_over(*tensors: Tensor) -> Tensor:
        answer: Tensor = Network()(*tensors)
        return place(tuple(answer.shape)).copy_(answer)

    assert said(writes_over) == "call 1 of 3: a later call changed this output"


def test_an_answer_that_is_remembered_by_its_tensors_is_named() -> None:
    known: dict[int, Tensor] = {}

    def remembers(x: Tensor, *weights: Tensor) -> Tensor:
        if x.data_ptr() not in known:
            known[x.data_ptr()] = Network()(x, *weights)
        return known[x.data_ptr()].clone()

    assert said(remembers).startswith('equals "remembers_tensors": the tensors of the call before are not read again')


@pytest.mark.parametrize("name", ASKED)
def test_what_is_right_in_every_call_passes(name: str) -> None:
    for control in contract(name).controls().values():
        outcomes = attnsuite.check(control, contract=name, cases="again")

        assert {outcome.status for outcome in outcomes} == {"passed"}
