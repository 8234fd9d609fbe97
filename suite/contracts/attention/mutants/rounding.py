"""Mistakes of precision: what is rounded, overflows or is flushed where the contract keeps it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnsuite.cases.mutants import Mutation, mutants, rounded, with_arguments, with_result
from attnsuite.contracts.attention.computation.call import Asked
from attnsuite.contracts.attention.computation.forward import Dense, largest_of, normalised
from attnsuite.contracts.attention.features.scale import ROUNDOFF

HALF = ("float16", "bfloat16")
SUM_ERROR = {"float64": 512, "float32": 512, "float16": 16, "bfloat16": 16}
"""By how many roundoffs the sum of the weights is off: 3 to 20 bounds of a peaked softmax over 16 to 128 keys."""


def in_ten_bits(tensor: Tensor) -> Tensor:
    """Rounded to a mantissa of ten bits with float32's range, as TensorFloat-32; the gradient passes through."""
    step = torch.exp2(torch.floor(torch.log2(tensor.detach().abs().clamp(min=1e-30))) - 10)
    return tensor + ((tensor.detach() / step).round() * step - tensor.detach())


def beyond_half(tensor: Tensor) -> Tensor:
    """What float16 makes of numbers beyond its range."""
    return tensor.masked_fill(tensor > 65504, math.inf).masked_fill(tensor < -65504, -math.inf)


def off_in(dtype: str) -> Mutation:
    """The weights' sum is off, in one dtype."""
    factor = 1 + SUM_ERROR[dtype] * ROUNDOFF[dtype]
    off = lambda weights, asked: weights * (factor if str(asked.query.dtype) == f"torch.{dtype}" else 1.0)  # noqa: E731
    return Mutation(f"in {dtype}, the weights sum to 1 + {factor - 1:.1e}", with_result(off), dtypes=(dtype,))


def flushed(value: Tensor, asked: Asked) -> Tensor:
    small = (value.abs() < 2.0**-14) & (asked.query.dtype == torch.float16)
    return value.masked_fill(small, 0.0)


def in_float32(asked: Asked) -> Asked:
    return asked.changed(Tensor.float)


def overflowing_powers(scores: Tensor, asked: Asked) -> Tensor:
    return normalised(beyond_half(scores.exp()))


in_bfloat16 = rounded(torch.bfloat16)
MUTANTS = mutants(
    Dense,
    widen={
        "computes_float64_in_float32": Mutation(
            "float64 is computed in float32", lambda asked: Dense.widen(in_float32(asked)), dtypes=("float64",)
        )
    },
    products={
        "rounds_queries_and_keys_to_half": Mutation(
            "queries and keys are rounded to bfloat16", with_arguments(query=in_bfloat16, key=in_bfloat16)
        ),
        "multiplies_scores_in_ten_bits": Mutation(
            "queries and keys are multiplied with mantissas of ten bits (TensorFloat-32)",
            with_arguments(query=in_ten_bits, key=in_ten_bits),
            "triton issue 1821",
        ),
        "overflows_before_scaling": Mutation(
            "scores overflow: queries and keys are multiplied in float16 before scaling",
            with_result(beyond_half),
            "pytorch issue 119131",
            ("float16",),
        ),
    },
    softmax={
        "rounds_scores_to_half": Mutation(
            "the scores are rounded to float16", with_arguments(scores=rounded(torch.float16))
        ),
        "computes_float64_softmax_in_float32": Mutation(
            "in float64, the softmax alone is computed in float32",
            lambda scores, asked: Dense.softmax(scores.float(), asked).to(scores.dtype),
            dtypes=("float64",),
        ),
        "overflows_after_scaling": Mutation(
            "scores overflow: they are kept in float16",
            with_arguments(scores=beyond_half),
            "pytorch issue 119131",
            ("float16",),
        ),
        "overflows_in_powers": Mutation(
            "the powers of a row overflow: float16 without subtracting the largest score",
            overflowing_powers,
            dtypes=("float16",),
        ),
        **{f"sum_off_by_a_little_in_{dtype}": off_in(dtype) for dtype in SUM_ERROR},
    },
    combine={
        "rounds_weights_to_float16": Mutation(
            "the weights are rounded to float16", with_result(rounded(torch.float16))
        ),
        "rounds_weights_to_half": Mutation(
            "the weights are rounded to bfloat16",
            with_arguments(weights=in_bfloat16),
            "fused kernels that keep their weights in half",
        ),
        "rounds_values_to_half": Mutation("the values are rounded to bfloat16", with_arguments(value=in_bfloat16)),
        "multiplies_values_in_ten_bits": Mutation(
            "weights and values are multiplied with mantissas of ten bits (TensorFloat-32)",
            with_arguments(weights=in_ten_bits, value=in_ten_bits),
            "triton issue 1821",
        ),
        "flushes_small_numbers": Mutation(
            "numbers below float16's smallest normal number count as 0",
            with_arguments(value=flushed),
            dtypes=("float16",),
        ),
        "overflows_in_values": Mutation(
            "large values overflow: they pass through float16", with_arguments(value=beyond_half)
        ),
    },
    finish={
        "rounds_output_to_half": Mutation(
            "the output is rounded to bfloat16 on the way",
            with_arguments(output=Tensor.bfloat16),
            dtypes=("float32", "float16"),
        )
    },
)


@Dense.instead("combine", "the weighted values are summed in the half type, key after key", dtypes=HALF)
def sums_values_in_half(weights: Tensor, value: Tensor, asked: Asked) -> Tensor:
    total = Dense.combine(weights[..., :0], value[..., :0, :], asked)
    for key in range(asked.keys):
        total = rounded(asked.query.dtype)(total + weights[..., key : key + 1] * value[..., key : key + 1, :])
    return total


@Dense.instead("softmax", "the powers are summed in the half type, key after key", dtypes=HALF)
def sums_powers_in_half(scores: Tensor, asked: Asked) -> Tensor:
    powers = (scores - largest_of(scores)).exp()
    total = powers[..., :0].sum(-1, keepdim=True)
    for key in range(asked.keys):
        total = rounded(asked.query.dtype)(total + powers[..., key : key + 1])
    return powers / total.masked_fill(total == 0, 1.0)


@Dense.instead("products", "scores come from squared distances, so that a common offset cancels badly")
def takes_scores_from_distances(query: Tensor, key: Tensor) -> Tensor:
    query_squares = query.square().sum(-1).unsqueeze(-1)
    key_squares = key.square().sum(-1).unsqueeze(-2)
    distances = query_squares + key_squares - 2 * (query @ key.transpose(-1, -2))
    return (query_squares + key_squares - distances) / 2
