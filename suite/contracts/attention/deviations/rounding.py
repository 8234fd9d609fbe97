"""Mistakes of precision: what is rounded, overflows or is flushed where the contract keeps it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from suite.asking import Deviation
from suite.contracts.attention.computation.asked import Asked
from suite.contracts.attention.computation.dense import Dense, Whole, correct, largest_of
from suite.contracts.attention.features.scale import ROUNDOFF

HALF = ("float16", "bfloat16")


def rounded(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.to(dtype).to(tensor.dtype)


def in_ten_bits(tensor: Tensor) -> Tensor:
    """Rounded to a mantissa of ten bits with float32's range, as TensorFloat-32; the gradient passes through."""
    step = torch.exp2(torch.floor(torch.log2(tensor.detach().abs().clamp(min=1e-30))) - 10)
    return tensor + ((tensor.detach() / step).round() * step - tensor.detach())


@Dense.instead("combine", "the weights are rounded to bfloat16", source="fused kernels that keep their weights in half")
def rounds_weights_to_half(weights: Tensor, value: Tensor, asked: Asked) -> Tensor:
    return Dense.combine(rounded(weights, torch.bfloat16), value, asked)


@Dense.instead("combine", "the values are rounded to bfloat16")
def rounds_values_to_half(weights: Tensor, value: Tensor, asked: Asked) -> Tensor:
    return Dense.combine(weights, rounded(value, torch.bfloat16), asked)


@Dense.instead("softmax", "the scores are rounded to float16")
def rounds_scores_to_half(scores: Tensor, asked: Asked) -> Tensor:
    return Dense.softmax(rounded(scores, torch.float16), asked)


@Dense.instead("products", "queries and keys are rounded to bfloat16")
def rounds_queries_and_keys_to_half(query: Tensor, key: Tensor) -> Tensor:
    return Dense.products(rounded(query, torch.bfloat16), rounded(key, torch.bfloat16))


@Dense.instead(
    "products",
    "queries and keys are multiplied with mantissas of ten bits (TensorFloat-32)",
    source="triton issue 1821",
)
def multiplies_scores_in_ten_bits(query: Tensor, key: Tensor) -> Tensor:
    return Dense.products(in_ten_bits(query), in_ten_bits(key))


@Dense.instead(
    "combine",
    "weights and values are multiplied with mantissas of ten bits (TensorFloat-32)",
    source="triton issue 1821",
)
def multiplies_values_in_ten_bits(weights: Tensor, value: Tensor, asked: Asked) -> Tensor:
    return Dense.combine(in_ten_bits(weights), in_ten_bits(value), asked)


@Dense.instead("finish", "the output is rounded to bfloat16 on the way", dtypes=("float32", "float16"))
def rounds_output_to_half(output: Tensor, asked: Asked) -> Tensor:
    return output.bfloat16().to(asked.query.dtype)


@Dense.instead("widen", "float64 is computed in float32", dtypes=("float64",))
def computes_float64_in_float32(asked: Asked) -> tuple[Tensor, Tensor, Tensor]:
    return asked.query.float(), asked.key.float(), asked.value.float()


@Dense.instead("softmax", "in float64, the softmax alone is computed in float32", dtypes=("float64",))
def computes_float64_softmax_in_float32(scores: Tensor, asked: Asked) -> Tensor:
    return Dense.softmax(scores.float(), asked).to(scores.dtype)


def _beyond_half(tensor: Tensor) -> Tensor:
    """What float16 makes of numbers beyond its range."""
    return tensor.masked_fill(tensor > 65504, math.inf).masked_fill(tensor < -65504, -math.inf)


_PRODUCTS_IN_HALF = Dense(products=lambda query, key: _beyond_half(Dense.products(query, key)))
_SCORES_IN_HALF = Dense(softmax=lambda scores, asked: Dense.softmax(_beyond_half(scores), asked))


@Whole.instead(
    "answer",
    "scores overflow: queries and keys are multiplied in float16 before scaling",
    source="pytorch issue 119131",
    dtypes=("float16",),
)
def overflows_before_scaling(asked: Asked) -> Any:
    return _PRODUCTS_IN_HALF(asked) if asked.query.dtype == torch.float16 else correct(asked)


@Whole.instead(
    "answer", "scores overflow: they are kept in float16", source="pytorch issue 119131", dtypes=("float16",)
)
def overflows_after_scaling(asked: Asked) -> Any:
    return _SCORES_IN_HALF(asked) if asked.query.dtype == torch.float16 else correct(asked)


@Dense.instead(
    "softmax", "the powers of a row overflow: float16 without subtracting the largest score", dtypes=("float16",)
)
def overflows_in_powers(scores: Tensor, asked: Asked) -> Tensor:
    if asked.query.dtype != torch.float16:
        return Dense.softmax(scores, asked)
    powers = _beyond_half(scores.exp())
    total = powers.sum(-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1.0)


@Dense.instead("combine", "the weighted values are summed in the half type, key after key", dtypes=HALF)
def sums_values_in_half(weights: Tensor, value: Tensor, asked: Asked) -> Tensor:
    total = Dense.combine(weights[..., :0], value[..., :0, :], asked)
    for key in range(asked.keys):
        total = rounded(total + weights[..., key : key + 1] * value[..., key : key + 1, :], asked.query.dtype)
    return total


@Dense.instead("softmax", "the powers are summed in the half type, key after key", dtypes=HALF)
def sums_powers_in_half(scores: Tensor, asked: Asked) -> Tensor:
    powers = (scores - largest_of(scores)).exp()
    total = powers[..., :0].sum(-1, keepdim=True)
    for key in range(asked.keys):
        total = rounded(total + powers[..., key : key + 1], asked.query.dtype)
    return powers / total.masked_fill(total == 0, 1.0)


@Dense.instead("widen", "numbers below float16's smallest normal number count as 0", dtypes=("float16",))
def flushes_small_numbers(asked: Asked) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = Dense.widen(asked)
    small = (value.abs() < 2.0**-14) & (asked.query.dtype == torch.float16)
    return query, key, value.masked_fill(small, 0.0)


@Dense.instead("combine", "large values overflow: they pass through float16")
def overflows_in_values(weights: Tensor, value: Tensor, asked: Asked) -> Tensor:
    return Dense.combine(weights, _beyond_half(value), asked)


@Dense.instead("products", "scores come from squared distances, so that a common offset cancels badly")
def takes_scores_from_distances(query: Tensor, key: Tensor) -> Tensor:
    query_squares = query.square().sum(-1).unsqueeze(-1)
    key_squares = key.square().sum(-1).unsqueeze(-2)
    distances = query_squares + key_squares - 2 * (query @ key.transpose(-1, -2))
    return (query_squares + key_squares - distances) / 2


SUM_ERROR = {"float64": 512, "float32": 512, "float16": 16, "bfloat16": 16}
"""By how many roundoffs the sum of the weights is off: 3 to 20 bounds of a peaked softmax over 16 to 128 keys."""


def _sum_off_by_a_little(dtype: str) -> Deviation:
    wrong = 1 + SUM_ERROR[dtype] * ROUNDOFF[dtype]
    says = f"in {dtype}, the weights sum to 1 + {wrong - 1:.1e}"

    @Dense.instead("softmax", says, name=f"sum_off_by_a_little_in_{dtype}", dtypes=(dtype,))
    def off(scores: Tensor, asked: Asked) -> Tensor:
        return Dense.softmax(scores, asked) * (wrong if str(asked.query.dtype) == f"torch.{dtype}" else 1.0)

    return off


BARELY = [_sum_off_by_a_little(dtype) for dtype in ROUNDOFF]
