"""Mistakes in the weights: in masks, in the softmax, in dropout, and in what they are summed with."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnsuite.cases import Mutant
from attnsuite.cases.mutants import Mutation, first_for_all, hidden_last, mutants, turned, with_arguments, with_result
from attnsuite.contracts.attention.features.dropout import always_alike, kept, multiplier, normalised, shared
from attnsuite.contracts.blocks.multi_head_attention.mutants.staged import MultiHead
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

MUTANTS = mutants(
    MultiHead,
    mask={
        "inverted_mask": Mutation(
            "the boolean mask is inverted: True hides, as in torch.nn.MultiheadAttention",
            with_arguments(allowed=torch.logical_not),
        ),
        "ignored_mask": Mutation("the mask is ignored", lambda scores, allowed: scores),
        "finite_fill": Mutation(
            "masked scores are −10⁹: a query with nothing to attend to gets the mean", fill(-1e9), "documents, E8"
        ),
        "fills_with_minus_10000": Mutation(
            "masked scores are −10,000, above some that are not masked", fill(-1e4, but_empty_rows=True)
        ),
        "fills_with_minus_million": Mutation(
            "masked scores are −10⁶, above some that are not masked", fill(-1e6, but_empty_rows=True)
        ),
        "zero_fill": Mutation("masked scores are zeros, which weigh too", fill(0.0)),
        "mask_of_first_head": Mutation(
            "the mask of the first head serves all heads", with_arguments(allowed=first_for_all(-3, from_rank=4))
        ),
        "mask_of_first_item": Mutation(
            "the mask of the first item serves all items", with_arguments(allowed=first_for_all(from_rank=4))
        ),
        "transposed_mask": Mutation(
            "queries and keys are swapped in the mask where it is square", with_arguments(allowed=turned)
        ),
        "mask_of_items_for_heads": Mutation(
            "the mask of an item is read as that of a head where there are as many",
            with_arguments(allowed=of_items_for_heads),
            "documents, E7",
        ),
    },
    past={
        "strictly_past": Mutation(
            "the own position is hidden too", lambda scores: masked(scores, triangle(scores).tril(-1)), "documents, E9"
        ),
        "future": Mutation(
            "the past is hidden instead of the future", lambda scores: masked(scores, triangle(scores).triu())
        ),
        "fills_what_follows_with_minus_million": Mutation(
            "what the causal rule hides has scores of −10⁶, above some that it does not hide",
            lambda scores: fill(-1e6)(scores, triangle(scores).tril()),
        ),
        "causal_in_first_head": Mutation(
            "the causal rule holds in the first head alone",
            with_result(lambda hidden, scores: torch.cat([hidden[:, :1], scores[:, 1:]], 1)),
        ),
        "sees_one_ahead": Mutation(
            "the next position is seen too", lambda scores: masked(scores, triangle(scores).tril(1))
        ),
        "lower_right": Mutation("the causal rule is aligned at the lower right", lower_right),
    },
    softmax={
        "softmax_over_heads": Mutation("one softmax runs over the keys of all heads together", over_heads),
        "softmax_over_queries": Mutation("the softmax runs over the queries instead of the keys", over_queries),
        "nan_for_empty_rows": Mutation(
            "a query with nothing to attend to gives NaN", lambda scores: scores.softmax(-1), "documents, E25"
        ),
        "weights_of_first_item": Mutation(
            "the weights of the first item serve all items", with_result(first_for_all())
        ),
        "weights_of_first_head": Mutation(
            "the weights of the first head serve all heads", with_result(first_for_all(1))
        ),
        "averaged_weights": Mutation(
            "the weights of all heads are averaged",
            with_result(lambda weights: weights.mean(1, keepdim=True).expand_as(weights)),
            "documents, 11.5: heads weigh differently",
        ),
        "overflows": Mutation(
            "exponentials are taken without subtracting the largest score: they overflow", overflowing
        ),
        "drops_key_beyond_64": Mutation(
            "the last of more than 64 keys is dropped", with_arguments(scores=hidden_last(64))
        ),
    },
    drop={
        "ignored_dropout": Mutation("dropout is ignored", lambda weights, p: weights),
        "kept_weights_not_rescaled": Mutation(
            "kept weights are not multiplied by 1/(1−p)", lambda weights, p: weights * kept(weights, p)
        ),
        "kept_weights_divided_by_p": Mutation(
            "kept weights are multiplied by 1/p instead of 1/(1−p)",
            lambda weights, p: weights * kept(weights, p) / p,
            "documents, E13",
        ),
        "dropped_instead_of_kept": Mutation(
            "weights are dropped with probability 1−p",
            lambda weights, p: weights * ~kept(weights, p) / (1 - p if p < 1 else 1.0) * (p < 1),
        ),
        "drops_a_tenth_too_rarely": Mutation(
            "weights are dropped a tenth too rarely",
            lambda weights, p: weights * kept(weights, p * 0.9 if p < 1 else p) * (1 / (1 - p) if p < 1 else 0.0),
        ),
        "nan_for_certain_dropout": Mutation(
            "p = 1 gives NaN: 0 · 1/0", lambda weights, p: weights * (math.nan if p == 1 else multiplier(weights, p))
        ),
        "dropped_alike_in_all_heads": Mutation("the same weights are dropped in all heads", shared(-3)),
        "dropped_alike_in_all_items": Mutation("the same weights are dropped in all items", shared(-4)),
        "drops_whole_rows": Mutation("whole heads of a query are dropped instead of single weights", shared(-1)),
        "normalised_after_dropout": Mutation("kept weights are normalised again", normalised),
        "dropped_alike_in_every_call": Mutation(
            "the same weights are dropped in every call, whatever the seed", always_alike
        ),
    },
    mix={
        "value_bias_left_out": Mutation("the values' bias is left out", lambda weights, values, bias: weights @ values),
        "value_bias_after_weights": Mutation(
            "the values' bias is added to the heads, so that dropped weights and empty rows keep all of it",
            lambda weights, values, bias: weights @ values if bias is None else weights @ values + bias,
        ),
    },
    finish={"drops_output_too": Mutation("the output is dropped as well as the weights", dropped_output)},
)
