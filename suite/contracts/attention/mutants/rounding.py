"""Mutants of precision: rounding, overflow, underflow, and errors of half types that show in many numbers together."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases.changes import rounded
from attnsuite.cases.mutants import Mutation, mutants, with_arguments, with_result
from attnsuite.cases.tensors import HALF
from attnsuite.contracts.attention.computation.call import AttentionCall
from attnsuite.contracts.attention.computation.forward import Dense, largest_of, normalised
from attnsuite.contracts.attention.computation.gradients import Backward, Saved
from attnsuite.contracts.attention.features.scale import factor


def in_ten_bits(tensor: Tensor) -> Tensor:
    """Rounded to a mantissa of ten bits with float32's range, as TensorFloat-32; the gradient passes through."""
    step = torch.exp2(torch.floor(torch.log2(tensor.detach().abs().clamp(min=1e-30))) - 10)
    return tensor + ((tensor.detach() / step).round() * step - tensor.detach())


def beyond_half(tensor: Tensor) -> Tensor:
    """The numbers with those beyond float16's range as infinities."""
    return tensor.masked_fill(tensor > 65504, math.inf).masked_fill(tensor < -65504, -math.inf)


def flushed(value: Tensor, call: AttentionCall) -> Tensor:
    small = (value.abs() < 2.0**-14) & (call.query.dtype == torch.float16)
    return value.masked_fill(small, 0.0)


in_bfloat16 = rounded(torch.bfloat16)


@Dense.instead("combine", "the weighted values are summed in the half type, key after key", dtypes=HALF)
def sums_values_in_half(weights: Tensor, value: Tensor, call: AttentionCall) -> Tensor:
    total = Dense.combine(weights[..., :0], value[..., :0, :], call)
    for key in range(call.keys):
        total = rounded(call.query.dtype)(total + weights[..., key : key + 1] * value[..., key : key + 1, :])
    return total


@Dense.instead("softmax", "the exponentials are summed in the half type, key after key", dtypes=HALF)
def sums_powers_in_half(scores: Tensor, call: AttentionCall) -> Tensor:
    exponentials = (scores - largest_of(scores)).exp()
    total = exponentials[..., :0].sum(-1, keepdim=True)
    for key in range(scores.shape[-1]):
        total = rounded(call.query.dtype)(total + exponentials[..., key : key + 1])
    return exponentials / total.masked_fill(total == 0, 1.0)


@Dense.instead("products", "scores come from squared distances, so that a common offset cancels badly")
def takes_scores_from_distances(query: Tensor, key: Tensor) -> Tensor:
    query_squares = query.square().sum(-1).unsqueeze(-1)
    key_squares = key.square().sum(-1).unsqueeze(-2)
    distances = query_squares + key_squares - 2 * (query @ key.transpose(-1, -2))
    return (query_squares + key_squares - distances) / 2


LONG = 128
"""Rows and keys from which these mistakes are made."""
ONE_KEY = 700
"""The key that is left out or counted twice where there are 1,024."""


def is_half(call: AttentionCall) -> bool:
    return call.query.dtype.itemsize == 2


def of_one_key(times: float) -> Any:
    """The softmax with one weight of 1,024 counted `times` times."""

    def softmax(weights: Tensor, call: AttentionCall) -> Tensor:
        if call.keys != 1024 or not is_half(call):
            return weights
        counted = torch.ones(call.keys)
        counted[ONE_KEY] = times
        return normalised(weights * counted)

    return with_result(softmax)


def of_one_tile(weights: Tensor, call: AttentionCall) -> Tensor:
    """The weights with those of the second tile of 64 keys 1 % too large."""
    counted = torch.ones(call.keys)
    counted[64:128] = 1.01
    return normalised(weights * counted) if is_half(call) else weights


def cut(numbers: Tensor, dtype: torch.dtype) -> Tensor:
    """The numbers with the digits cut off that the dtype cannot hold."""
    nearest = numbers.to(dtype)
    beyond = nearest.float().abs() > numbers.abs()
    return torch.where(beyond, torch.nextafter(nearest, torch.zeros_like(nearest)), nearest)


def cut_through(numbers: Tensor, call: AttentionCall) -> Tensor:
    """The same on the way; the gradient passes through."""
    if not is_half(call):
        return numbers
    return numbers + (cut(numbers.detach(), call.query.dtype).to(numbers.dtype) - numbers.detach())


def edge_moved_in_long_rows(by: int) -> Callable[..., Any]:
    """The causal edge, in rows beyond the first ones, moved by some keys."""
    return lambda grid, call: grid.j <= grid.i + by * ((grid.i >= LONG) & is_half(call))


def by_a_little(gradient: Tensor, saved: Saved) -> Tensor:
    return gradient * 1.005 if is_half(saved.call) else gradient


IN_HALF = mutants(
    Dense,
    widen={"computes_float64_in_float32": Mutation("float64 is computed in float32",
        lambda call: Dense.widen(call.changed(Tensor.float)), dtypes=("float64",))},
    products={
        "rounds_queries_and_keys_to_half": Mutation("queries and keys are rounded to bfloat16",
            with_arguments(query=in_bfloat16, key=in_bfloat16)),
        "multiplies_scores_in_ten_bits": Mutation(
            "queries and keys are multiplied with mantissas of ten bits (TensorFloat-32)",
            with_arguments(query=in_ten_bits, key=in_ten_bits), "triton issue 1821"),
        "overflows_before_scaling": Mutation(
            "scores overflow: queries and keys are multiplied in float16 before scaling", with_result(beyond_half),
            "pytorch issue 119131", ("float16",)),
    },
    softmax={
        "rounds_scores_to_half": Mutation("the scores are rounded to float16",
            with_arguments(scores=rounded(torch.float16))),
        "computes_float64_softmax_in_float32": Mutation("in float64, the softmax alone is computed in float32",
            lambda scores, call: Dense.softmax(scores.float(), call).to(scores.dtype), dtypes=("float64",)),
        "overflows_after_scaling": Mutation("scores overflow: they are kept in float16",
            with_arguments(scores=beyond_half), "pytorch issue 119131", ("float16",)),
        "overflows_in_powers": Mutation(
            "the exponentials of a row overflow: float16 without subtracting the largest score",
            lambda scores, call: normalised(beyond_half(scores.exp())), dtypes=("float16",)),
        "drops_one_key_of_1024_in_half": Mutation("one key of 1,024 is left out", of_one_key(0.0), dtypes=HALF),
        "counts_one_key_of_1024_twice_in_half": Mutation("one key of 1,024 counts twice", of_one_key(2.0), dtypes=HALF),
        "weighs_one_tile_too_much_in_half": Mutation("the weights of one tile of 64 keys are 1 % too large",
            with_result(of_one_tile), dtypes=HALF),
    },
    combine={
        "rounds_weights_to_float16": Mutation("the weights are rounded to float16",
            with_result(rounded(torch.float16))),
        "rounds_weights_to_half": Mutation("the weights are rounded to bfloat16", with_arguments(weights=in_bfloat16),
            "fused kernels that keep their weights in half"),
        "rounds_values_to_half": Mutation("the values are rounded to bfloat16", with_arguments(value=in_bfloat16)),
        "multiplies_values_in_ten_bits": Mutation(
            "weights and values are multiplied with mantissas of ten bits (TensorFloat-32)",
            with_arguments(weights=in_ten_bits, value=in_ten_bits), "triton issue 1821"),
        "flushes_small_numbers": Mutation("numbers below float16's smallest normal number count as 0",
            with_arguments(value=flushed), dtypes=("float16",)),
        "overflows_in_values": Mutation("large values overflow: they pass through float16",
            with_arguments(value=beyond_half)),
        "cuts_weights_to_half": Mutation("the weights' digits are cut off, not rounded",
            with_arguments(weights=lambda weights, call: cut_through(weights, call)), dtypes=HALF),
    },
    finish={
        "rounds_output_to_half": Mutation("the output is rounded to bfloat16 on the way",
            with_arguments(output=Tensor.bfloat16), dtypes=("float32", "float16")),
        "cuts_output_to_half": Mutation("the output's digits are cut off, not rounded",
            with_arguments(output=lambda output, call: cut_through(output, call)), "conversions by a shift of bits",
            HALF),
    },
    factor={"scale_half_a_percent_off_in_half": Mutation("the scale is 0.5 % too large",
        lambda call: factor(call) * (1.005 if is_half(call) else 1.0), dtypes=HALF)},
    causal={
        "sees_one_ahead_in_long_rows": Mutation(f"a query beyond the first {LONG} sees one key of the future",
            edge_moved_in_long_rows(1), dtypes=HALF),
        "misses_its_own_key_in_long_rows": Mutation(f"a query beyond the first {LONG} does not see its own key",
            edge_moved_in_long_rows(-1), dtypes=HALF),
    },
)  # fmt: skip
GRADIENTS = mutants(
    Backward,
    key_gradient={"key_gradient_half_a_percent_off_in_half": Mutation("the key's gradient is 0.5 % too large",
        with_result(by_a_little), dtypes=HALF)},
    value_gradient={
        "value_gradient_half_a_percent_off_in_half": Mutation("the value's gradient is 0.5 % too large",
            with_result(by_a_little), dtypes=HALF),
        "cuts_value_gradient_to_half": Mutation("the digits of the value's gradient are cut off, not rounded",
            with_result(lambda gradient, saved: cut_through(gradient, saved.call)), dtypes=HALF),
    },
)  # fmt: skip
