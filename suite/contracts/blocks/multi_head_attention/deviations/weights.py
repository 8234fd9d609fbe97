"""Mistakes in masks and in the softmax."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from suite.asking.staged import Mistake, instead_of, mistakes
from suite.contracts.blocks.multi_head_attention.deviations.staged import MultiHead

IN_MASK = mistakes(
    MultiHead.mask,
    inverted_mask=Mistake(
        "the boolean mask is inverted: True hides, as in torch.nn.MultiheadAttention",
        lambda scores, mask: scores.masked_fill(mask, -math.inf),
    ),
    ignored_mask=Mistake("the mask is ignored", lambda scores, mask: scores),
    finite_fill=Mistake(
        "masked scores are −10⁹: a query with nothing to attend to gets the mean",
        lambda scores, mask: scores.masked_fill(~mask, -1e9),
        source="documents, E8",
    ),
    fills_with_minus_10000=Mistake(
        "masked scores are −10,000, above some that are not masked",
        lambda scores, mask: scores.masked_fill(~mask, -1e4).masked_fill(~mask.any(-1, keepdim=True), -math.inf),
    ),
    zero_fill=Mistake("masked scores are zeros, which weigh too", lambda scores, mask: scores.masked_fill(~mask, 0.0)),
    mask_of_first_head=Mistake(
        "the mask of the first head serves all heads",
        lambda scores, mask: MultiHead.mask(scores, mask[:, :1] if mask.dim() == 4 else mask),
    ),
    mask_of_first_item=Mistake(
        "the mask of the first item serves all items",
        lambda scores, mask: MultiHead.mask(scores, mask[:1] if mask.dim() == 4 else mask),
    ),
    transposed_mask=Mistake(
        "queries and keys are swapped in the mask where it is square",
        lambda scores, mask: MultiHead.mask(scores, mask.mT if mask.shape[-1] == mask.shape[-2] else mask),
    ),
)


@instead_of(
    MultiHead.mask, "the mask of an item is read as that of a head where there are as many", source="documents, E7"
)
def mask_of_items_for_heads(scores: Tensor, mask: Tensor) -> Tensor:
    swap = mask.dim() == 4 and scores.shape[0] == scores.shape[1]
    return MultiHead.mask(scores, mask.transpose(0, 1) if swap else mask)


IN_PAST = mistakes(
    MultiHead.past,
    strictly_past=Mistake(
        "the own position is hidden too",
        lambda scores: scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(), -math.inf),
        source="documents, E9",
    ),
    future=Mistake(
        "the past is hidden instead of the future",
        lambda scores: scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).tril(-1), -math.inf),
    ),
    causal_in_first_head=Mistake(
        "the causal rule holds in the first head alone",
        lambda scores: torch.cat([MultiHead.past(scores[:, :1]), scores[:, 1:]], 1),
    ),
)


@instead_of(MultiHead.past, "the causal rule is aligned at the lower right")
def lower_right(scores: Tensor) -> Tensor:
    queries, keys = scores.shape[-2:]
    return scores.masked_fill(torch.ones((queries, keys), dtype=torch.bool).triu(keys - queries + 1), -math.inf)


@instead_of(MultiHead.softmax, "one softmax runs over the keys of all heads together")
def softmax_over_heads(scores: Tensor) -> Tensor:
    together = MultiHead.softmax(scores.transpose(1, 2).flatten(2))  # b l (h s)
    return together.reshape(scores.transpose(1, 2).shape).transpose(1, 2)


IN_SOFTMAX = mistakes(
    MultiHead.softmax,
    softmax_over_queries=Mistake(
        "the softmax runs over the queries instead of the keys", lambda scores: MultiHead.softmax(scores.mT).mT
    ),
    nan_for_empty_rows=Mistake(
        "a query with nothing to attend to gives NaN", lambda scores: scores.softmax(-1), source="documents, E25"
    ),
    weights_of_first_item=Mistake(
        "the weights of the first item serve all items",
        lambda scores: MultiHead.softmax(scores[:1]).expand_as(scores) if len(scores) else scores,
    ),
    weights_of_first_head=Mistake(
        "the weights of the first head serve all heads",
        lambda scores: MultiHead.softmax(scores[:, :1]).expand_as(scores),
    ),
    averaged_weights=Mistake(
        "the weights of all heads are averaged",
        lambda scores: MultiHead.softmax(scores).mean(1, keepdim=True).expand_as(scores),
        source="documents, 11.5: heads weigh differently",
    ),
)


@instead_of(MultiHead.softmax, "exponentials are taken without subtracting the largest score: they overflow")
def overflows(scores: Tensor) -> Tensor:
    powers = scores.exp()
    total = powers.sum(-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1.0)


@instead_of(MultiHead.softmax, "the last of more than 64 keys is dropped")
def drops_key_beyond_64(scores: Tensor) -> Tensor:
    if scores.shape[-1] > 64:
        scores = torch.cat([scores[..., :-1], torch.full_like(scores[..., :1], -math.inf)], -1)
    return MultiHead.softmax(scores)
