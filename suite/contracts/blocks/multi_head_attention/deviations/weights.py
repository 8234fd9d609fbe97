"""Mistakes in the weights: in masks, in the softmax, in dropout, and in what they are summed with."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnsuite.cases import Mutant
from attnsuite.cases.mutants import Wrong, first_for_all, given, hidden_last, mutants, rows, then, turned
from attnsuite.contracts.attention.features.dropout import always_alike, kept, multiplier, normalised, shared
from attnsuite.contracts.blocks.multi_head_attention.deviations.staged import MultiHead
from attnsuite.contracts.softmax import fill, masked, over_queries, overflowing, softmax


def triangle(scores: Tensor) -> Tensor:
    return torch.ones(scores.shape[-2:], dtype=torch.bool)


def lower_right(scores: Tensor) -> Tensor:
    queries, keys = scores.shape[-2:]
    return masked(scores, triangle(scores).tril(keys - queries))


def of_items_for_heads(mask: Tensor, scores: Tensor) -> Tensor:
    return mask.transpose(0, 1) if mask.dim() == 4 and scores.shape[0] == scores.shape[1] else mask


def over_heads(scores: Tensor) -> Tensor:
    together = softmax(scores.transpose(1, 2).flatten(2))  # b l (h s)
    return together.reshape(scores.transpose(1, 2).shape).transpose(1, 2)


def dropped_output(output: Tensor, p: float) -> Tensor:
    return output * multiplier(output, p) if p else output


drops_output_instead = Mutant(
    "drops_output_instead",
    "the output is dropped instead of the weights",
    MultiHead(drop=lambda weights, p: weights, finish=dropped_output),
)

MISTAKES = mutants(
    MultiHead,
    mask=rows(
        inverted_mask=Wrong(
            "the boolean mask is inverted: True hides, as in torch.nn.MultiheadAttention",
            given(allowed=torch.logical_not),
        ),
        ignored_mask=Wrong("the mask is ignored", lambda scores, allowed: scores),
        finite_fill=Wrong(
            "masked scores are −10⁹: a query with nothing to attend to gets the mean", fill(-1e9), "documents, E8"
        ),
        fills_with_minus_10000=Wrong(
            "masked scores are −10,000, above some that are not masked", fill(-1e4, but_empty_rows=True)
        ),
        fills_with_minus_million=Wrong(
            "masked scores are −10⁶, above some that are not masked", fill(-1e6, but_empty_rows=True)
        ),
        zero_fill=Wrong("masked scores are zeros, which weigh too", fill(0.0)),
        mask_of_first_head=Wrong(
            "the mask of the first head serves all heads", given(allowed=first_for_all(-3, from_rank=4))
        ),
        mask_of_first_item=Wrong(
            "the mask of the first item serves all items", given(allowed=first_for_all(from_rank=4))
        ),
        transposed_mask=Wrong("queries and keys are swapped in the mask where it is square", given(allowed=turned)),
        mask_of_items_for_heads=Wrong(
            "the mask of an item is read as that of a head where there are as many",
            given(allowed=of_items_for_heads),
            "documents, E7",
        ),
    ),
    past=rows(
        strictly_past=Wrong(
            "the own position is hidden too", lambda scores: masked(scores, triangle(scores).tril(-1)), "documents, E9"
        ),
        future=Wrong(
            "the past is hidden instead of the future", lambda scores: masked(scores, triangle(scores).triu())
        ),
        fills_what_follows_with_minus_million=Wrong(
            "what the causal rule hides has scores of −10⁶, above some that it does not hide",
            lambda scores: fill(-1e6)(scores, triangle(scores).tril()),
        ),
        causal_in_first_head=Wrong(
            "the causal rule holds in the first head alone",
            then(lambda hidden, scores: torch.cat([hidden[:, :1], scores[:, 1:]], 1)),
        ),
        sees_one_ahead=Wrong("the next position is seen too", lambda scores: masked(scores, triangle(scores).tril(1))),
        lower_right=Wrong("the causal rule is aligned at the lower right", lower_right),
    ),
    softmax=rows(
        softmax_over_heads=Wrong("one softmax runs over the keys of all heads together", over_heads),
        softmax_over_queries=Wrong("the softmax runs over the queries instead of the keys", over_queries),
        nan_for_empty_rows=Wrong(
            "a query with nothing to attend to gives NaN", lambda scores: scores.softmax(-1), "documents, E25"
        ),
        weights_of_first_item=Wrong("the weights of the first item serve all items", then(first_for_all())),
        weights_of_first_head=Wrong("the weights of the first head serve all heads", then(first_for_all(1))),
        averaged_weights=Wrong(
            "the weights of all heads are averaged",
            then(lambda weights: weights.mean(1, keepdim=True).expand_as(weights)),
            "documents, 11.5: heads weigh differently",
        ),
        overflows=Wrong("exponentials are taken without subtracting the largest score: they overflow", overflowing),
        drops_key_beyond_64=Wrong("the last of more than 64 keys is dropped", given(scores=hidden_last(64))),
    ),
    drop=rows(
        ignored_dropout=Wrong("dropout is ignored", lambda weights, p: weights),
        kept_weights_not_rescaled=Wrong(
            "kept weights are not multiplied by 1/(1−p)", lambda weights, p: weights * kept(weights, p)
        ),
        kept_weights_divided_by_p=Wrong(
            "kept weights are multiplied by 1/p instead of 1/(1−p)",
            lambda weights, p: weights * kept(weights, p) / p,
            "documents, E13",
        ),
        dropped_instead_of_kept=Wrong(
            "weights are dropped with probability 1−p",
            lambda weights, p: weights * ~kept(weights, p) / (1 - p if p < 1 else 1.0) * (p < 1),
        ),
        drops_a_tenth_too_rarely=Wrong(
            "weights are dropped a tenth too rarely",
            lambda weights, p: weights * kept(weights, p * 0.9 if p < 1 else p) * (1 / (1 - p) if p < 1 else 0.0),
        ),
        nan_for_certain_dropout=Wrong(
            "p = 1 gives NaN: 0 · 1/0", lambda weights, p: weights * (math.nan if p == 1 else multiplier(weights, p))
        ),
        dropped_alike_in_all_heads=Wrong("the same weights are dropped in all heads", shared(-3)),
        dropped_alike_in_all_items=Wrong("the same weights are dropped in all items", shared(-4)),
        drops_whole_rows=Wrong("whole heads of a query are dropped instead of single weights", shared(-1)),
        normalised_after_dropout=Wrong("kept weights are normalised again", normalised),
        dropped_alike_in_every_call=Wrong(
            "the same weights are dropped in every call, whatever the seed", always_alike
        ),
    ),
    mix=rows(
        value_bias_left_out=Wrong("the values' bias is left out", lambda weights, values, bias: weights @ values),
        value_bias_after_weights=Wrong(
            "the values' bias is added to the heads, so that dropped weights and empty rows keep all of it",
            lambda weights, values, bias: weights @ values if bias is None else weights @ values + bias,
        ),
    ),
    finish=rows(drops_output_too=Wrong("the output is dropped as well as the weights", dropped_output)),
)
