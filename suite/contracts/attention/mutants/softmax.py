"""Mistakes in the softmax: ranges and normalisation."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attnsuite.cases.mutants import Mutation, StepChange, mutants, with_arguments, with_result
from attnsuite.contracts.attention.computation.call import Asked
from attnsuite.contracts.attention.computation.forward import Dense, largest_of, normalised
from attnsuite.contracts.attention.features.empty_row import empty


def raises_without(axis: int, error: Exception) -> StepChange:
    """An error where an axis of the scores is empty."""

    def refused(scores: Tensor) -> Tensor:
        if scores.shape[axis] == 0:
            raise error
        return scores

    return with_arguments(scores=refused)


def finite(change: Callable[[Tensor], Tensor]) -> StepChange:
    """Scores are changed, except those that are −∞."""
    return with_arguments(scores=lambda scores: torch.where(scores == -math.inf, scores, change(scores)))


def less(subtracted: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """From each row another number is subtracted than its largest score."""
    return lambda scores, asked: normalised((scores - subtracted(scores)).exp())


def first_score(scores: Tensor) -> Tensor:
    first = scores.detach()[..., : min(1, scores.shape[-1])]
    return first.masked_fill(first == -math.inf, 0)


def divided_by_its_sum(scores: Tensor, asked: Asked) -> Tensor:
    """Without the largest subtracted; where all powers underflow, 0 is divided by 0."""
    powers = scores.exp()
    return (powers / powers.sum(-1, keepdim=True)).masked_fill(empty(scores), 0.0)


def with_zeros_for_nan(scores: Tensor, asked: Asked) -> Tensor:
    return divided_by_its_sum(scores, asked).nan_to_num(0.0)


MUTANTS = mutants(
    Dense,
    softmax={
        "raises_without_keys": Mutation(
            "no keys at all raise an error",
            raises_without(-1, IndexError("amax(): Expected reduction dim -1 to have non-zero size.")),
            "flash-attention issue 2470",
        ),
        "raises_without_queries": Mutation(
            "no queries at all raise an error",
            raises_without(-2, RuntimeError("CUDA error: invalid configuration argument")),
            "flash-attention issue 2470",
        ),
        "does_not_subtract_largest": Mutation(
            "the largest score is not subtracted before exponentiation",
            lambda scores, asked: normalised(scores.exp()),
            "pytorch issue 133120",
            others=(divided_by_its_sum, with_zeros_for_nan),
        ),
        "subtracts_largest_of_each_key": Mutation(
            "the largest score of each key is subtracted instead of each query's",
            less(lambda scores: largest_of(scores.transpose(-1, -2)).transpose(-1, -2)),
        ),
        "subtracts_largest_of_each_matrix": Mutation(
            "one largest score is subtracted from a whole matrix, so that low rows underflow",
            less(lambda scores: largest_of(scores.flatten(-2)).unsqueeze(-1)),
        ),
        "subtracts_first_score": Mutation(
            "the score of the first key is subtracted instead of the largest", less(first_score)
        ),
        "normalises_over_queries": Mutation(
            "the softmax runs over the queries instead of the keys",
            lambda scores, asked: Dense.softmax(scores.transpose(-1, -2), asked).transpose(-1, -2),
        ),
        "normalises_over_heads": Mutation(
            "the weights of all heads together sum to 1",
            with_result(lambda weights, asked: weights / asked.heads if asked.heads else weights),
        ),
        "does_not_normalise": Mutation(
            "the weights are not normalised", lambda scores, asked: (scores - largest_of(scores)).exp()
        ),
        "takes_powers_of_two": Mutation(
            "powers of 2 are taken instead of e, without the factor log₂ e",
            lambda scores, asked: normalised((scores - largest_of(scores)).exp2()),
            "vllm issue 43919",
        ),
        "cuts_scores_to_50": Mutation("scores are cut to [−50, 50]", finite(lambda scores: scores.clamp(-50.0, 50.0))),
        "cuts_scores_to_1000": Mutation(
            "scores are cut to [−1000, 1000]", finite(lambda scores: scores.clamp(-1000.0, 1000.0))
        ),
        "caps_scores_softly": Mutation(
            "scores are capped softly, 30 · tanh(score/30)",
            finite(lambda scores: 30 * (scores / 30).tanh()),
            "Gemma's soft cap, left on",
        ),
        "drops_small_weights": Mutation(
            "weights below 1/1000 count as 0", with_result(lambda weights: weights.masked_fill(weights < 1e-3, 0.0))
        ),
    },
    finish={
        "gives_nan_without_keys": Mutation(
            "no keys at all give NaN",
            with_arguments(output=lambda output, asked: output if asked.keys else output + math.nan),
            "0/0 in the normalisation",
        )
    },
)


@Dense.instead("softmax", "1 is added to the sum of the powers", source="softmax-one, attention sinks")
def adds_one_to_sum(scores: Tensor, asked: Asked) -> Tensor:
    largest = largest_of(scores)
    powers = (scores - largest).exp()
    return powers / (powers.sum(-1, keepdim=True) + (-largest).exp())


@Dense.instead("softmax", "1e-5 is added to the sum of the powers")
def adds_epsilon_to_sum(scores: Tensor, asked: Asked) -> Tensor:
    powers = (scores - largest_of(scores)).exp()
    return powers / (powers.sum(-1, keepdim=True) + 1e-5)


@Dense.instead("softmax", "the exponential is approximated by (1 + x/4096)^4096")
def approximates_exponential(scores: Tensor, asked: Asked) -> Tensor:
    shifted = scores - largest_of(scores)
    return normalised((1 + shifted.clamp(min=-4096.0) / 4096).pow(4096))


@Dense.instead("softmax", "only the 32 keys with the largest scores are attended to", source="top-k attention")
def attends_to_32_best_keys(scores: Tensor, asked: Asked) -> Tensor:
    if asked.keys <= 32:
        return Dense.softmax(scores, asked)
    smallest = scores.detach().topk(32, dim=-1).values[..., -1:]
    return Dense.softmax(scores.masked_fill(scores < smallest, -math.inf), asked)


@Dense.instead("softmax", "all of the weight goes to the key with the largest score")
def takes_value_of_best_key(scores: Tensor, asked: Asked) -> Tensor:
    if asked.keys == 0:
        return Dense.softmax(scores, asked)
    best = torch.zeros_like(scores).scatter(-1, scores.argmax(-1, keepdim=True), 1.0)
    return (best + 0 * scores.nan_to_num(neginf=0.0)).masked_fill(empty(scores), 0.0)
