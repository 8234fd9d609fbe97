"""Mutants of the formula: a wrong factor, function, sign or axis; a wrong range or normalisation of the softmax."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attnsuite.cases.changes import turned
from attnsuite.cases.mutants import Mutation, mutants, with_arguments, with_result
from attnsuite.contracts.attention.computation.call import AttentionCall
from attnsuite.contracts.attention.computation.forward import Dense, largest_of, normalised
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
