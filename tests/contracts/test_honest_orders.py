"""The bounds of oracles allow every order of a sum or scale, and no small mistake."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from builders import case_named
from torch import Tensor

from attnsuite.cases.formula import FormulaCase
from attnsuite.worker.calling import run_calls

DRAWS = 200
UNITS = {"float64": 2.0**-53, "float32": 2.0**-24}


def failures(name: str, case: str, dtype: str, function: Callable[..., Any], draws: int = DRAWS) -> int:
    """How many draws of a case's sizes a function fails."""
    original = case_named(name, case)
    assert isinstance(original, FormulaCase)
    count = 0
    for number in range(draws):
        drawn = replace(original, name=f"{case} {number}")
        calls = drawn.calls(dtype)
        count += drawn.verdict(calls, run_calls(function, calls), drawn.expected(calls, {})).status != "passed"
    return count


def bias_first(x: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
    """A linear map whose sums begin with the bias, in the dtype, as BLAS makes them on some machines."""
    total = bias.expand(*x.shape[:-1], len(bias)).clone()
    for column, row in zip(x.unbind(-1), weights, strict=True):
        total += column[..., None] * row
    return total


def network(affine: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def positionwise_ffn(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
        return affine(affine(x, w1, b1).relu(), w2, b2)

    return positionwise_ffn


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_sums_may_begin_with_the_bias(dtype: str) -> None:
    assert failures("positionwise_ffn", "plain/small", dtype, network(bias_first)) == 0
    assert failures("positionwise_ffn", "plain/usual", dtype, network(bias_first)) == 0


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_bias_that_is_barely_wrong_fails(dtype: str) -> None:
    def off(x: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
        return bias_first(x, weights, bias * (1 + 64 * UNITS[dtype]))

    assert failures("positionwise_ffn", "plain/small", dtype, network(off)) > 0.95 * DRAWS


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_scores_that_are_barely_wrong_fail(dtype: str) -> None:
    def off(query: Tensor, key: Tensor) -> Tensor:
        wrong = 1 + 24 * torch.finfo(query.dtype).eps
        return (query.double() @ key.double().mT * (wrong / math.sqrt(query.shape[-1]))).to(query.dtype)

    assert failures("attention_scores", "plain/usual", dtype, off) > 0.95 * DRAWS
