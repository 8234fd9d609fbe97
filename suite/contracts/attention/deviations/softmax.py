"""Mistakes in the softmax: ranges and normalisation."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from suite.contracts.attention.computation.asked import Asked
from suite.contracts.attention.computation.dense import Dense, largest_of, normalised
from suite.contracts.attention.features.empty_row import empty


@Dense.instead("finish", "no keys at all give NaN", source="0/0 in the normalisation")
def gives_nan_without_keys(output: Tensor, asked: Asked) -> Tensor:
    output = output if asked.keys else output + math.nan
    return output.to(asked.query.dtype)


@Dense.instead("softmax", "no keys at all raise an error", source="flash-attention issue 2470")
def raises_without_keys(scores: Tensor, asked: Asked) -> Tensor:
    if scores.shape[-1] == 0:
        raise IndexError("amax(): Expected reduction dim -1 to have non-zero size.")
    return Dense.softmax(scores, asked)


@Dense.instead("softmax", "no queries at all raise an error", source="flash-attention issue 2470")
def raises_without_queries(scores: Tensor, asked: Asked) -> Tensor:
    if scores.shape[-2] == 0:
        raise RuntimeError("CUDA error: invalid configuration argument")
    return Dense.softmax(scores, asked)


@Dense.instead("softmax", "the largest score is not subtracted before exponentiation", source="pytorch issue 133120")
def does_not_subtract_largest(scores: Tensor, asked: Asked) -> Tensor:
    return normalised(scores.exp())


@Dense.instead("softmax", "the largest score of each key is subtracted instead of each query's")
def subtracts_largest_of_each_key(scores: Tensor, asked: Asked) -> Tensor:
    return normalised((scores - largest_of(scores.transpose(-1, -2)).transpose(-1, -2)).exp())


@Dense.instead("softmax", "one largest score is subtracted from a whole matrix, so that low rows underflow")
def subtracts_largest_of_each_matrix(scores: Tensor, asked: Asked) -> Tensor:
    return normalised((scores - largest_of(scores.flatten(-2)).unsqueeze(-1)).exp())


@Dense.instead("softmax", "the score of the first key is subtracted instead of the largest")
def subtracts_first_score(scores: Tensor, asked: Asked) -> Tensor:
    first = scores.detach()[..., :1]
    return (
        Dense.softmax(scores, asked)
        if asked.keys == 0
        else normalised((scores - first.masked_fill(first == -math.inf, 0)).exp())
    )


@Dense.instead("softmax", "the softmax runs over the queries instead of the keys")
def normalises_over_queries(scores: Tensor, asked: Asked) -> Tensor:
    return Dense.softmax(scores.transpose(-1, -2), asked).transpose(-1, -2)


@Dense.instead("softmax", "the weights of all heads together sum to 1")
def normalises_over_heads(scores: Tensor, asked: Asked) -> Tensor:
    weights = Dense.softmax(scores, asked)
    return weights / asked.heads if asked.heads else weights


@Dense.instead("softmax", "the weights are not normalised")
def does_not_normalise(scores: Tensor, asked: Asked) -> Tensor:
    return (scores - largest_of(scores)).exp()


@Dense.instead("softmax", "1 is added to the sum of the powers", source="softmax-one, attention sinks")
def adds_one_to_sum(scores: Tensor, asked: Asked) -> Tensor:
    largest = largest_of(scores)
    powers = (scores - largest).exp()
    return powers / (powers.sum(-1, keepdim=True) + (-largest).exp())


@Dense.instead("softmax", "1e-5 is added to the sum of the powers")
def adds_epsilon_to_sum(scores: Tensor, asked: Asked) -> Tensor:
    powers = (scores - largest_of(scores)).exp()
    return powers / (powers.sum(-1, keepdim=True) + 1e-5)


@Dense.instead("softmax", "powers of 2 are taken instead of e, without the factor log₂ e", source="vllm issue 43919")
def takes_powers_of_two(scores: Tensor, asked: Asked) -> Tensor:
    return normalised((scores - largest_of(scores)).exp2())


@Dense.instead("softmax", "the exponential is approximated by (1 + x/4096)^4096")
def approximates_exponential(scores: Tensor, asked: Asked) -> Tensor:
    shifted = scores - largest_of(scores)
    return normalised((1 + shifted.clamp(min=-4096.0) / 4096).pow(4096))


@Dense.instead("softmax", "scores are cut to [−50, 50]")
def cuts_scores_to_50(scores: Tensor, asked: Asked) -> Tensor:
    return Dense.softmax(torch.where(scores == -math.inf, scores, scores.clamp(-50.0, 50.0)), asked)


@Dense.instead("softmax", "scores are cut to [−1000, 1000]")
def cuts_scores_to_1000(scores: Tensor, asked: Asked) -> Tensor:
    return Dense.softmax(torch.where(scores == -math.inf, scores, scores.clamp(-1000.0, 1000.0)), asked)


@Dense.instead("softmax", "scores are capped softly, 30 · tanh(score/30)", source="Gemma's soft cap, left on")
def caps_scores_softly(scores: Tensor, asked: Asked) -> Tensor:
    return Dense.softmax(torch.where(scores == -math.inf, scores, 30 * (scores / 30).tanh()), asked)


@Dense.instead("softmax", "weights below 1/1000 count as 0")
def drops_small_weights(scores: Tensor, asked: Asked) -> Tensor:
    weights = Dense.softmax(scores, asked)
    return weights.masked_fill(weights < 1e-3, 0.0)


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
