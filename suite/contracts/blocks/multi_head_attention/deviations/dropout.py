"""Mistakes in dropout."""

from __future__ import annotations

import torch
from torch import Tensor

from suite.asking import Deviation
from suite.asking.staged import Mistake, instead_of, mistakes
from suite.contracts.blocks.multi_head_attention.deviations.staged import MultiHead, multiplier


def _kept(weights: Tensor, p: float) -> Tensor:
    return torch.rand(weights.shape) >= p


IN_DROP = mistakes(
    MultiHead.drop,
    ignored_dropout=Mistake("dropout is ignored", lambda weights, p: weights),
    kept_weights_not_rescaled=Mistake(
        "kept weights are not multiplied by 1/(1−p)", lambda weights, p: weights * _kept(weights, p)
    ),
    kept_weights_divided_by_p=Mistake(
        "kept weights are multiplied by 1/p instead of 1/(1−p)",
        lambda weights, p: weights * _kept(weights, p) / p,
        source="documents, E13",
    ),
    dropped_instead_of_kept=Mistake(
        "weights are dropped with probability 1−p",
        lambda weights, p: weights * ~_kept(weights, p) / (1 - p if p < 1 else 1.0) * (p < 1),
    ),
    nan_for_certain_dropout=Mistake(
        "p = 1 gives NaN: 0 · 1/0", lambda weights, p: weights * (float("nan") if p == 1 else multiplier(weights, p))
    ),
    dropped_alike_in_all_heads=Mistake(
        "the same weights are dropped in all heads", lambda weights, p: weights * multiplier(weights[:, :1], p)
    ),
    dropped_alike_in_all_items=Mistake(
        "the same weights are dropped in all items", lambda weights, p: weights * multiplier(weights[:1], p)
    ),
    drops_whole_rows=Mistake(
        "whole heads of a query are dropped instead of single weights",
        lambda weights, p: weights * multiplier(weights[..., :1], p),
    ),
)


@instead_of(MultiHead.drop, "kept weights are normalised again")
def normalised_after_dropout(weights: Tensor, p: float) -> Tensor:
    kept = weights * _kept(weights, p)
    total = kept.sum(-1, keepdim=True)
    return kept / total.masked_fill(total == 0, 1.0)


@instead_of(MultiHead.drop, "the same weights are dropped in every call, whatever the seed")
def dropped_alike_in_every_call(weights: Tensor, p: float) -> Tensor:
    kept = torch.rand(weights.shape, generator=torch.Generator().manual_seed(0)) >= p
    return weights * kept / (1 - p if p < 1 else 1.0)


@instead_of(MultiHead.finish, "the output is dropped as well as the weights")
def drops_output_too(output: Tensor, p: float) -> Tensor:
    return output * multiplier(output, p) if p else output


drops_output_instead = Deviation(
    "drops_output_instead",
    "the output is dropped instead of the weights",
    MultiHead(
        drop=lambda weights, p: weights,
        finish=lambda output, p: output * multiplier(output, p) if p else output,
    ).as_function(),
)
