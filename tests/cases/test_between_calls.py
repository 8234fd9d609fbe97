"""Leftovers of an earlier call are noticed by three calls in a row."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import attnsuite
from attnsuite.cases import Case
from attnsuite.cases.formula import RepeatedCase
from attnsuite.contracts import contract, names
from attnsuite.contracts.blocks.positionwise_ffn import Network
from attnsuite.worker.calling import run_calls


def detail(function: Callable[..., Any]) -> str:
    (outcome,) = attnsuite.check(function, contract="positionwise_ffn", cases="again", dtypes="float32")
    assert outcome.status == "failed"
    return outcome.detail


def writes_twice(case: Case) -> bool:
    """Whether a case has a call with other numbers in the tensors of the call before."""
    calls = case.calls(case.dtypes[0])
    return any(call.same_storage for call in calls[2:]) and not any(
        torch.equal(tensor, calls[1].tensors[name])
        for name, tensor in calls[2].tensors.items()
        if tensor.is_floating_point()
    )


def test_every_contract_has_calls_with_other_numbers_in_the_same_tensors() -> None:
    again = {name: [case for case in contract(name).cases() if case.family == "again"] for name in names()}
    others = {"attention", "seq2seq_attention", "transformer", "vision_transformer", "token_masking"}

    assert {name for name, cases in again.items() if any(map(writes_twice, cases))} == set(names()) - others


def test_the_third_call_has_other_numbers_in_the_tensors_of_the_second() -> None:
    case = next(case for case in contract("positionwise_ffn").cases() if isinstance(case, RepeatedCase))
    first, second, third = case.calls("float32")
    places: list[int] = []

    run_calls(lambda x, *weights: places.append(x.data_ptr()), (first, second, third))

    assert not any(torch.equal(first.tensors[name], second.tensors[name]) for name in first.tensors)
    assert not any(torch.equal(second.tensors[name], third.tensors[name]) for name in first.tensors)
    assert places[0] != places[1] == places[2]


def test_an_output_that_is_overwritten_is_wrong() -> None:
    buffers: dict[Any, Tensor] = {}

    def overwrites(*tensors: Tensor) -> Tensor:
        output: Tensor = Network()(*tensors)
        return buffers.setdefault(output.shape, torch.empty_like(output)).copy_(output)

    assert detail(overwrites) == "call 1 of 3: a later call changed this output"


def test_an_output_that_is_remembered_by_its_tensors_is_diagnosed() -> None:
    known: dict[int, Tensor] = {}

    def remembers(x: Tensor, *weights: Tensor) -> Tensor:
        return known.setdefault(x.data_ptr(), Network()(x, *weights)).clone()

    assert detail(remembers).startswith('equals "remembers_tensors": the tensors of the call before are not read again')
