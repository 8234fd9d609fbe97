"""Mutants of the formula: a wrong factor, function, sign or axis, a wrong softmax; and of precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases.changes import rounded, turned
from attnsuite.cases.mutants import Mutation, mutants, with_arguments, with_result
from attnsuite.cases.tensors import HALF
from attnsuite.contracts.attention.computation.call import AttentionCall
from attnsuite.contracts.attention.computation.forward import Dense, largest_of, normalised
from attnsuite.contracts.attention.computation.gradients import Backward, Saved
from attnsuite.contracts.attention.features.empty_row import empty
from attnsuite.contracts.attention.features.scale import by_default, factor


def root_of(size: Callable[[AttentionCall], int]) -> Callable[[AttentionCall], float]:
    """The default scale is 1/√ of another size than the width."""
    return by_default(lambda call: max(size(call), 1) ** -0.5)


def attended(scores: Tensor) -> Tensor:
    """The scores, 0 where a query may not attend."""
    return scores.masked_fill(scores == -math.inf, 0.0)


def cosines(query: Tensor, key: Tensor) -> Tensor:
    return torch.nn.functional.normalize(query, dim=-1) @ torch.nn.functional.normalize(key, dim=-1).transpose(-1, -2)


def distances(query: Tensor, key: Tensor) -> Tensor:
    lengths = [(tensor**2).sum(-1) for tensor in (query, key)]
    return 2 * query @ key.transpose(-1, -2) - lengths[0].unsqueeze(-1) - lengths[1].unsqueeze(-2)


def linear(scores: Tensor) -> Tensor:
    total = attended(scores).sum(-1, keepdim=True)
    return attended(scores) / total.masked_fill(total == 0, 1.0)


def along(axis: int) -> Callable[..., Tensor]:
    """The softmax along another axis, where there is one."""
    return lambda scores, call: (
        Dense.softmax(scores.transpose(axis, -1), call).transpose(axis, -1)
        if scores.dim() >= -axis
        else Dense.softmax(scores, call)
    )


def _with_epsilon(scores: Tensor, epsilon: float) -> Tensor:
    exponentials = (scores - largest_of(scores)).exp()
    return exponentials / (exponentials.sum(-1, keepdim=True) + epsilon)


def divided_by_its_sum(scores: Tensor, call: AttentionCall) -> Tensor:
    """Without the largest subtracted; where all exponentials underflow, 0 is divided by 0."""
    exponentials = scores.exp()
    return (exponentials / exponentials.sum(-1, keepdim=True)).masked_fill(empty(scores), 0.0)


def _with_one_more(scores: Tensor, call: AttentionCall) -> Tensor:
    largest = largest_of(scores)
    exponentials = (scores - largest).exp()
    return exponentials / (exponentials.sum(-1, keepdim=True) + (-largest).exp())


def _best_key(scores: Tensor, call: AttentionCall) -> Tensor:
    if call.keys == 0:
        return Dense.softmax(scores, call)
    best = torch.zeros_like(scores).scatter(-1, scores.argmax(-1, keepdim=True), 1.0)
    return (best + 0 * scores.nan_to_num(neginf=0.0)).masked_fill(empty(scores), 0.0)


MUTANTS = mutants(
    Dense,
    factor={
        "multiplies_by_root": Mutation("the scores are multiplied by √d, not divided",
            by_default(lambda call: call.width**0.5)),
        "divides_by_fourth_root": Mutation("the default scale is d^−¼: a share for query and key each is applied once",
            by_default(lambda call: call.width**-0.25)),
        "applies_root_of_scale": Mutation("the root of the scale is applied, of its size",
            lambda call: abs(factor(call)) ** 0.5),
        "scales_by_number_of_keys": Mutation("the default scale is 1/√s, from the number of keys",
            root_of(lambda call: call.keys)),
        "scales_by_number_of_queries": Mutation("the default scale is 1/√l, from the number of queries",
            root_of(lambda call: call.queries)),
        "scales_as_if_width_were_64": Mutation("the default scale is 1/8, as of width 64, whatever the width is",
            root_of(lambda call: 64)),
    },
    products={
        "takes_cosines": Mutation("query and key are normalised: scores are cosines", cosines),
        "takes_negative_distances": Mutation("scores are negative squared distances", distances),
        "negates_scores": Mutation("the scores have the wrong sign", with_result(torch.neg)),
        "takes_absolute_scores": Mutation("the sign of the scores is lost", with_result(torch.abs)),
        "rectifies_scores": Mutation("negative scores become 0", with_result(torch.relu)),
    },
    softmax={
        "takes_softmax_along_heads": Mutation("the softmax runs over the heads instead of the keys", along(-3)),
        "takes_softmax_along_items": Mutation("the softmax runs over the batch items instead of the keys", along(-4)),
        "normalises_over_whole_matrix": Mutation("the weights of all queries of a head together sum to 1",
            lambda scores, call: Dense.softmax(scores.flatten(-2), call).view(scores.shape)),
        "takes_sigmoid": Mutation("weights are the sigmoid of the scores, each for itself",
            lambda scores, call: scores.sigmoid()),
        "takes_softmax_twice": Mutation("the softmax is taken of the weights again",
            with_result(lambda weights: weights.softmax(-1) if weights.shape[-1] else weights)),
        "takes_log_of_weights": Mutation("the logarithm of the softmax is taken for the weights",
            with_result(torch.log)),
        "normalises_linear_scores": Mutation("scores are divided by their sum, without an exponential",
            lambda scores, call: linear(scores)),
        "divides_by_number_of_keys": Mutation("scores are divided by the number of keys, without a softmax",
            lambda scores, call: attended(scores) / max(scores.shape[-1], 1)),
        "adds_one_to_shifted_sum": Mutation(
            "1 is added to the sum of the exponentials after the largest score was subtracted",
            lambda scores, call: _with_epsilon(scores, 1.0)),
        "adds_epsilon_to_sum": Mutation("1e-5 is added to the sum of the exponentials",
            lambda scores, call: _with_epsilon(scores, 1e-5)),
        "does_not_subtract_largest": Mutation("the largest score is not subtracted before exponentiation",
            lambda scores, call: normalised(scores.exp()), "pytorch issue 133120",
            others=(divided_by_its_sum, lambda scores, call: divided_by_its_sum(scores, call).nan_to_num(0.0))),
        "subtracts_largest_of_each_matrix": Mutation(
            "one largest score is subtracted from a whole matrix, so that low rows underflow",
            lambda scores, call: normalised((scores - largest_of(scores.flatten(-2)).unsqueeze(-1)).exp())),
        "shifts_by_smallest_for_negative_scale": Mutation(
            "a negative scale overflows: the largest score is taken before scaling",
            lambda scores, call: Dense.softmax(scores, call) if factor(call) >= 0
            else normalised((scores + largest_of(-scores).nan_to_num(posinf=0.0)).exp()), "pytorch issue 105190"),
        "adds_one_to_sum": Mutation("1 is added to the sum of the exponentials", _with_one_more,
            "softmax-one, attention sinks"),
        "takes_value_of_best_key": Mutation("all of the weight goes to the key with the largest score", _best_key),
        "normalises_over_queries": Mutation("the softmax runs over the queries instead of the keys",
            lambda scores, call: Dense.softmax(scores.transpose(-1, -2), call).transpose(-1, -2)),
        "normalises_over_heads": Mutation("the weights of all heads together sum to 1",
            with_result(lambda weights, call: weights / call.heads if call.heads else weights)),
        "does_not_normalise": Mutation("the weights are not normalised",
            lambda scores, call: (scores - largest_of(scores)).exp()),
        "takes_powers_of_two": Mutation("powers of 2 are taken instead of e, without the factor log₂ e",
            lambda scores, call: normalised((scores - largest_of(scores)).exp2()), "vllm issue 43919"),
        "caps_scores_softly": Mutation("scores are capped softly, 30 · tanh(score/30)",
            with_arguments(scores=lambda scores: torch.where(scores == -math.inf, scores, 30 * (scores / 30).tanh())),
            "Gemma's soft cap, left on"),
    },
    combine={
        "transposes_weights": Mutation("square weights are transposed before they meet the values",
            with_arguments(weights=turned)),
        "rolls_heads_of_values": Mutation("each head reads the values of the head before",
            lambda weights, value, call: weights @ (value.roll(1, -3) if value.dim() > 2 else value)),
        "adds_first_value": Mutation("the first value is added to every output",
            lambda weights, value, call: weights @ value + value[..., :1, :].sum(-2, keepdim=True)),
    },
    finish={"gives_nan_without_keys": Mutation("no keys at all give NaN",
        with_arguments(output=lambda output, call: output if call.keys else output + math.nan),
        "0/0 in the normalisation")},
)  # fmt: skip


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
