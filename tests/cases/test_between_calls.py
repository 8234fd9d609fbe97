"""Leftovers of an earlier call are noticed by three calls in a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import attnsuite
from attnsuite.cases.formula import RepeatedCase
from attnsuite.contracts import contract, names
from attnsuite.contracts.blocks.positionwise_ffn import Network
from attnsuite.worker import run_calls


def detail(function: Callable[..., Any]) -> str:
    (outcome,) = attnsuite.check(function, contract="positionwise_ffn", cases="again", dtypes="float32")
    assert outcome.status == "failed"
    return outcome.detail


def test_every_formula_has_a_repeated_case() -> None:
    repeated = {name for name in names() if any(isinstance(case, RepeatedCase) for case in contract(name).cases())}
    others = {"attention", "seq2seq_attention", "transformer", "vision_transformer", "token_masking"}

    assert repeated == set(names()) - others, "token_masking has several seeds instead"


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
