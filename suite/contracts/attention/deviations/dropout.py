"""Mistakes in dropout."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from suite.asking.staged import instead_of
from suite.contracts.attention.deviations.asked import Asked
from suite.contracts.attention.deviations.staged import Dense, Whole, correct, multiplier


def _rescale(p: float) -> float:
    return 1 / (1 - p) if p < 1 else 0.0


def _kept(weights: Tensor, p: float, generator: torch.Generator | None = None) -> Tensor:
    return torch.rand(weights.shape, generator=generator, device=weights.device) >= p


def _shared(weights: Tensor, p: float, axis: int) -> Tensor:
    """The multiplier drawn once along an axis."""
    if weights.dim() < -axis or weights.shape[axis] == 0:
        return multiplier(weights, p)
    return multiplier(weights.narrow(axis, 0, 1), p)


@instead_of(Dense.dropout, "dropout is ignored")
def ignores_dropout(weights: Tensor, p: float) -> Tensor:
    return weights


@instead_of(Dense.dropout, "kept weights are not rescaled by 1/(1−p)")
def does_not_rescale_kept_weights(weights: Tensor, p: float) -> Tensor:
    return weights * _kept(weights, p)


@instead_of(Dense.dropout, "kept weights are rescaled by 1/p instead of 1/(1−p)", source="documents: doc-003 E13")
def rescales_kept_weights_by_p(weights: Tensor, p: float) -> Tensor:
    return weights * _kept(weights, p) / p


@instead_of(Dense.dropout, "kept weights are rescaled twice")
def rescales_kept_weights_twice(weights: Tensor, p: float) -> Tensor:
    return weights * multiplier(weights, p) * _rescale(p)


@instead_of(Dense.dropout, "weights are dropped with probability 1−p")
def drops_with_probability_of_keeping(weights: Tensor, p: float) -> Tensor:
    return weights * ~_kept(weights, p) * _rescale(p)


@instead_of(Dense.dropout, "weights are dropped a tenth too rarely")
def drops_a_tenth_too_rarely(weights: Tensor, p: float) -> Tensor:
    return weights * _kept(weights, p * 0.9 if p < 1 else p) * _rescale(p)


@instead_of(Dense.dropout, "the probability is rounded to eighths", source="thresholds on few random bits")
def rounds_probability_to_eighths(weights: Tensor, p: float) -> Tensor:
    return weights * _kept(weights, round(p * 8) / 8) * _rescale(p)


@instead_of(Dense.dropout, "keys are dropped in pairs, not independently")
def drops_keys_in_pairs(weights: Tensor, p: float) -> Tensor:
    pairs = multiplier(weights[..., ::2], p)
    return weights * pairs.repeat_interleave(2, dim=-1)[..., : weights.shape[-1]]


@instead_of(Dense.dropout, "the same weights are dropped for all queries of a matrix")
def drops_alike_for_all_queries(weights: Tensor, p: float) -> Tensor:
    return weights * _shared(weights, p, -2)


@instead_of(Dense.dropout, "all weights of a query are dropped or kept together")
def drops_whole_queries(weights: Tensor, p: float) -> Tensor:
    return weights * _shared(weights, p, -1)


@instead_of(Dense.dropout, "the same weights are dropped in all heads")
def drops_alike_in_all_heads(weights: Tensor, p: float) -> Tensor:
    return weights * _shared(weights, p, -3)


@instead_of(Dense.dropout, "the same weights are dropped in all batch items")
def drops_alike_in_all_items(weights: Tensor, p: float) -> Tensor:
    return weights * _shared(weights, p, -4)


@instead_of(Dense.dropout, "the weights of the first key are never dropped")
def never_drops_first_key(weights: Tensor, p: float) -> Tensor:
    first = torch.arange(weights.shape[-1], device=weights.device) == 0
    return weights * (_kept(weights, p) | first & (p < 1)) * _rescale(p)


@instead_of(Dense.dropout, "the weights are normalised again after dropout")
def normalises_after_dropout(weights: Tensor, p: float) -> Tensor:
    kept = weights * _kept(weights, p)
    total = kept.sum(-1, keepdim=True)
    return kept / total.masked_fill(total == 0, 1.0)


@instead_of(Dense.dropout, "p = 1 gives NaN: 0 · 1/0")
def gives_nan_for_certain_dropout(weights: Tensor, p: float) -> Tensor:
    return weights * (float("nan") if p == 1 else multiplier(weights, p))


@instead_of(Dense.dropout, "torch.manual_seed has no influence on what is dropped")
def ignores_manual_seed(weights: Tensor, p: float) -> Tensor:
    generator = torch.Generator(weights.device)
    generator.seed()
    return weights * _kept(weights, p, generator) * _rescale(p)


@instead_of(Dense.dropout, "the same weights are dropped in every call, whatever the seed")
def drops_alike_in_every_call(weights: Tensor, p: float) -> Tensor:
    generator = torch.Generator(weights.device).manual_seed(0)
    return weights * _kept(weights, p, generator) * _rescale(p)


@instead_of(Whole.answer, "dropout is applied to the output instead of the weights")
def drops_outputs(asked: Asked) -> Any:
    output = correct(replace(asked, dropout_p=0.0))
    return output * multiplier(output, asked.dropout_p) if asked.dropout_p > 0 else output


def _drops_scores(scores: Tensor, asked: Asked) -> Tensor:
    keep = torch.rand(scores.shape, device=scores.device) >= asked.dropout_p
    return Dense.softmax(
        scores.masked_fill(~keep & (scores > -float("inf")), 0.0) if asked.dropout_p else scores, asked
    )


_DROPS_SCORES = Dense(softmax=_drops_scores, dropout=lambda weights, p: weights)


@instead_of(Whole.answer, "dropout is applied to the scores before the softmax instead of the weights")
def drops_scores(asked: Asked) -> Any:
    return _DROPS_SCORES(asked)


@instead_of(Whole.answer, "dropout is applied to the values' rows, alike for all queries")
def drops_values(asked: Asked) -> Any:
    if asked.dropout_p == 0 or asked.keys == 0:
        return correct(asked)
    keep = multiplier(asked.value[..., :1], asked.dropout_p)
    return correct(replace(asked, value=asked.value * keep, dropout_p=0.0))


@instead_of(
    Whole.answer,
    "without being asked, a tenth of the weights is dropped",
    source="pytorch issue 124464 (dropout in evaluation)",
)
def drops_at_probability_zero(asked: Asked) -> Any:
    return correct(replace(asked, dropout_p=asked.dropout_p or 0.1))


@instead_of(Whole.answer, "dropout is ignored when the mask is causal")
def ignores_dropout_when_causal(asked: Asked) -> Any:
    return correct(replace(asked, dropout_p=0.0) if asked.is_causal else asked)


@instead_of(
    Whole.answer, "dropout is ignored when no gradient is wanted", source="kernels that take evaluation for granted"
)
def ignores_dropout_without_gradient(asked: Asked) -> Any:
    return correct(asked if asked.wants_gradient else replace(asked, dropout_p=0.0))
