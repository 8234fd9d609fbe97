"""Mistakes in the softmax: empty rows, ranges, normalisation."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from suite.asking.staged import instead_of
from suite.contracts.attention.deviations.asked import Asked
from suite.contracts.attention.deviations.staged import Dense, largest_of


def _empty(scores: Tensor) -> Tensor:
    """Which rows may attend to nothing, though there are keys: ... l 1."""
    if scores.shape[-1] == 0:
        return torch.zeros(*scores.shape[:-1], 1, dtype=torch.bool, device=scores.device)
    return (scores == -math.inf).all(-1, keepdim=True)


def _mean_for_empty_row(scores: Tensor, asked: Asked) -> Tensor:
    return Dense.softmax(scores.masked_fill(_empty(scores), 0.0), asked)


def _normalised(powers: Tensor) -> Tensor:
    total = powers.sum(-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1.0)


@instead_of(
    Dense.softmax,
    'a query that may attend to nothing gives NaN; who means that declares conventions={"empty_row": "nan"}',
    source="pytorch issue 103963",
)
def gives_nan_for_empty_row(scores: Tensor, asked: Asked) -> Tensor:
    return Dense.softmax(scores, asked).masked_fill(_empty(scores), math.nan)


@instead_of(
    Dense.softmax,
    "a query that may attend to nothing gives the mean of the values; who means that declares "
    'conventions={"empty_row": "mean"}',
    source="onnxruntime issue 28958",
)
def gives_mean_for_empty_row(scores: Tensor, asked: Asked) -> Tensor:
    return _mean_for_empty_row(scores, asked)


@instead_of(
    Dense.softmax,
    "a query that a boolean mask leaves nothing gives the mean of the values",
    source="jax.nn (its convention)",
)
def gives_mean_for_empty_row_of_bool_mask(scores: Tensor, asked: Asked) -> Tensor:
    is_bool = asked.mask is not None and asked.mask.dtype == torch.bool
    return _mean_for_empty_row(scores, asked) if is_bool else Dense.softmax(scores, asked)


@instead_of(Dense.softmax, "a query that a float mask leaves nothing gives NaN", source="jax.nn (its convention)")
def gives_nan_for_empty_row_of_float_mask(scores: Tensor, asked: Asked) -> Tensor:
    is_float = asked.mask is not None and asked.mask.dtype != torch.bool
    weights = Dense.softmax(scores, asked)
    return weights.masked_fill(_empty(scores), math.nan) if is_float else weights


@instead_of(Dense.softmax, "a query that may attend to nothing repeats the answer of the query before")
def repeats_last_row_for_empty_row(scores: Tensor, asked: Asked) -> Tensor:
    weights = Dense.softmax(scores, asked)
    return torch.where(_empty(scores), weights.roll(1, -2), weights)


@instead_of(Dense.softmax, "a query that may attend to nothing gives 1e-6 of the mean instead of zeros")
def leaves_a_trace_for_empty_row(scores: Tensor, asked: Asked) -> Tensor:
    return Dense.softmax(scores, asked).masked_fill(_empty(scores), 1e-6 / max(asked.keys, 1))


@instead_of(
    Dense.combine,
    "a query that may attend to nothing makes gradients NaN: NaN is replaced by 0 in the output only",
    source="pytorch issue 41508",
)
def poisons_gradients_by_empty_row(weights: Tensor, value: Tensor, asked: Asked) -> Tensor:
    if asked.keys == 0 or asked.dropout_p > 0:
        return Dense.combine(weights, value, asked)
    empty = (weights == 0).all(-1, keepdim=True)
    return Dense.combine(weights.masked_fill(empty, math.nan), value, asked).masked_fill(empty, 0.0)


@instead_of(Dense.softmax, "a query that may attend to nothing gives NaN unless it is the first of its matrix")
def looks_for_empty_rows_in_first_row(scores: Tensor, asked: Asked) -> Tensor:
    others = torch.arange(scores.shape[-2], device=scores.device).unsqueeze(-1) > 0
    return Dense.softmax(scores, asked).masked_fill(_empty(scores) & others, math.nan)


@instead_of(Dense.finish, "no keys at all give NaN", source="0/0 in the normalisation")
def gives_nan_without_keys(output: Tensor, asked: Asked) -> Tensor:
    output = output if asked.keys else output + math.nan
    return output.to(asked.query.dtype)


@instead_of(Dense.softmax, "no keys at all raise an error", source="flash-attention issue 2470")
def raises_without_keys(scores: Tensor, asked: Asked) -> Tensor:
    if scores.shape[-1] == 0:
        raise IndexError("amax(): Expected reduction dim -1 to have non-zero size.")
    return Dense.softmax(scores, asked)


@instead_of(Dense.softmax, "no queries at all raise an error", source="flash-attention issue 2470")
def raises_without_queries(scores: Tensor, asked: Asked) -> Tensor:
    if scores.shape[-2] == 0:
        raise RuntimeError("CUDA error: invalid configuration argument")
    return Dense.softmax(scores, asked)


@instead_of(Dense.softmax, "the largest score is not subtracted before exponentiation", source="pytorch issue 133120")
def does_not_subtract_largest(scores: Tensor, asked: Asked) -> Tensor:
    return _normalised(scores.exp())


@instead_of(Dense.softmax, "the largest score of each key is subtracted instead of each query's")
def subtracts_largest_of_each_key(scores: Tensor, asked: Asked) -> Tensor:
    return _normalised((scores - largest_of(scores.transpose(-1, -2)).transpose(-1, -2)).exp())


@instead_of(Dense.softmax, "one largest score is subtracted from a whole matrix, so that low rows underflow")
def subtracts_largest_of_each_matrix(scores: Tensor, asked: Asked) -> Tensor:
    return _normalised((scores - largest_of(scores.flatten(-2)).unsqueeze(-1)).exp())


@instead_of(Dense.softmax, "the score of the first key is subtracted instead of the largest")
def subtracts_first_score(scores: Tensor, asked: Asked) -> Tensor:
    first = scores.detach()[..., :1]
    return (
        Dense.softmax(scores, asked)
        if asked.keys == 0
        else _normalised((scores - first.masked_fill(first == -math.inf, 0)).exp())
    )


@instead_of(Dense.softmax, "the softmax runs over the queries instead of the keys")
def normalises_over_queries(scores: Tensor, asked: Asked) -> Tensor:
    return Dense.softmax(scores.transpose(-1, -2), asked).transpose(-1, -2)


@instead_of(Dense.softmax, "the weights of all heads together sum to 1")
def normalises_over_heads(scores: Tensor, asked: Asked) -> Tensor:
    weights = Dense.softmax(scores, asked)
    return weights / asked.heads if asked.heads else weights


@instead_of(Dense.softmax, "the weights are not normalised")
def does_not_normalise(scores: Tensor, asked: Asked) -> Tensor:
    return (scores - largest_of(scores)).exp()


@instead_of(Dense.softmax, "1 is added to the sum of the powers", source="softmax-one, attention sinks")
def adds_one_to_sum(scores: Tensor, asked: Asked) -> Tensor:
    largest = largest_of(scores)
    powers = (scores - largest).exp()
    return powers / (powers.sum(-1, keepdim=True) + (-largest).exp())


@instead_of(Dense.softmax, "1e-5 is added to the sum of the powers")
def adds_epsilon_to_sum(scores: Tensor, asked: Asked) -> Tensor:
    powers = (scores - largest_of(scores)).exp()
    return powers / (powers.sum(-1, keepdim=True) + 1e-5)


@instead_of(Dense.softmax, "powers of 2 are taken instead of e, without the factor log₂ e", source="vllm issue 43919")
def takes_powers_of_two(scores: Tensor, asked: Asked) -> Tensor:
    return _normalised((scores - largest_of(scores)).exp2())


@instead_of(Dense.softmax, "the exponential is approximated by (1 + x/4096)^4096")
def approximates_exponential(scores: Tensor, asked: Asked) -> Tensor:
    shifted = scores - largest_of(scores)
    return _normalised((1 + shifted.clamp(min=-4096.0) / 4096).pow(4096))


@instead_of(Dense.softmax, "scores are cut to [−50, 50]")
def cuts_scores_to_50(scores: Tensor, asked: Asked) -> Tensor:
    return Dense.softmax(torch.where(scores == -math.inf, scores, scores.clamp(-50.0, 50.0)), asked)


@instead_of(Dense.softmax, "scores are cut to [−1000, 1000]")
def cuts_scores_to_1000(scores: Tensor, asked: Asked) -> Tensor:
    return Dense.softmax(torch.where(scores == -math.inf, scores, scores.clamp(-1000.0, 1000.0)), asked)


@instead_of(Dense.softmax, "scores are capped softly, 30 · tanh(score/30)", source="Gemma's soft cap, left on")
def caps_scores_softly(scores: Tensor, asked: Asked) -> Tensor:
    return Dense.softmax(torch.where(scores == -math.inf, scores, 30 * (scores / 30).tanh()), asked)


@instead_of(Dense.softmax, "weights below 1/1000 count as 0")
def drops_small_weights(scores: Tensor, asked: Asked) -> Tensor:
    weights = Dense.softmax(scores, asked)
    return weights.masked_fill(weights < 1e-3, 0.0)


@instead_of(Dense.softmax, "only the 32 keys with the largest scores are attended to", source="top-k attention")
def attends_to_32_best_keys(scores: Tensor, asked: Asked) -> Tensor:
    if asked.keys <= 32:
        return Dense.softmax(scores, asked)
    smallest = scores.detach().topk(32, dim=-1).values[..., -1:]
    return Dense.softmax(scores.masked_fill(scores < smallest, -math.inf), asked)


@instead_of(Dense.softmax, "all of the weight goes to the key with the largest score")
def takes_value_of_best_key(scores: Tensor, asked: Asked) -> Tensor:
    if asked.keys == 0:
        return Dense.softmax(scores, asked)
    best = torch.zeros_like(scores).scatter(-1, scores.argmax(-1, keepdim=True), 1.0)
    return (best + 0 * scores.nan_to_num(neginf=0.0)).masked_fill(_empty(scores), 0.0)
