"""Mutants of the contract `multi_head_attention`, and its correct variants."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from attnsuite.cases import Mutant, Variant
from attnsuite.cases.changes import (
    first_for_all,
    for_all_items,
    hidden_last,
    repeated_beyond,
    swapped_where_equal,
    turned,
)
from attnsuite.cases.computations import all_mutants, bias_first, linear
from attnsuite.cases.mutants import Mutation, mutants, unless_none, with_arguments, with_result
from attnsuite.contracts import shared
from attnsuite.contracts.attention import mutants as attention
from attnsuite.contracts.attention.computation.call import as_attention
from attnsuite.contracts.attention.computation.forward import Tiled
from attnsuite.contracts.attention.features.dropout import multiplier
from attnsuite.contracts.blocks.multi_head_attention.computation import MultiHead, group_of_keys
from attnsuite.contracts.shared import ignoring

CONTROLS = {"correct": MultiHead()}
DROPPED, DROPPED_SEED = 0.5, 1
"""The probability of dropout of tested modules, and the seed of what drops numbers in evaluation mode."""


def _none_for_one_tensor(bias: Tensor | None, query: Tensor, key: Tensor, value: Tensor) -> Tensor | None:
    return None if query is key is value else bias


def _tiled(weights: Tensor, w_key: Tensor, num_heads: int) -> Tensor:
    """Weights of heads that are equal in groups of neighbours, 0 0 1 1, in the order 0 1 0 1; others as they are."""
    group = group_of_keys(w_key, num_heads)
    columns: Tensor = weights.unflatten(-1, (num_heads // group, group, -1))
    return columns.transpose(-3, -2).flatten(-3)


def _scaled_by_width(map: Tensor, w_query: Tensor) -> Tensor:
    """A map of queries for scores that are divided by the root of the queries' own width over the number of heads."""
    return map * math.sqrt(w_query.shape[1] / w_query.shape[0])


OF_ATTENTION = {mutant.name: mutant for mutant in attention.mutants()}
OF_HEADS = (
    *("inverts_bool_mask", "ignores_bool_mask", "fills_with_minus_1e9", "fills_with_minus_10000"),
    *("uses_first_heads_mask", "uses_first_items_mask", "transposes_square_mask", "excludes_the_diagonal"),
    *("allows_one_future_key", "aligns_causal_at_the_end", "fills_future_with_minus_1e9", "gives_nan_for_empty_row"),
    *("normalises_over_heads", "ignores_dropout", "rescales_kept_weights_by_p", "drops_with_probability_of_keeping"),
    *("drops_a_tenth_too_rarely", "gives_nan_for_certain_dropout", "drops_alike_in_all_heads"),
    *("drops_alike_in_every_call", "looks_ahead"),
)
"""Mutants of the contract `attention` that compute the heads here, without their advice to declare a convention."""


HEADS = [
    Mutant(
        name,
        OF_ATTENTION[name].says.partition("; if that is meant")[0],
        MultiHead(attend=OF_ATTENTION[name].function),
        OF_ATTENTION[name].dtypes,
        OF_ATTENTION[name].source,
    )
    for name in OF_HEADS
]


def _dropped_output(output: Tensor, p: float) -> Tensor:
    return output * multiplier(output, p) if p else output


drops_output_instead = Mutant(
    "drops_output_instead",
    "the output is dropped instead of the weights",
    MultiHead(attend=OF_ATTENTION["ignores_dropout"].function, finish=_dropped_output),
)


def _dropped_anyway(numbers: Tensor) -> Tensor:
    """Half of the numbers are dropped, those that a module drops."""
    draws = torch.Generator().manual_seed(DROPPED_SEED)
    return numbers * torch.empty_like(numbers).bernoulli_(1 - DROPPED, generator=draws) / (1 - DROPPED)


def _of_shape(first: dict[Any, Tensor], weights: Tensor) -> Tensor:
    """The tensor that is stored for this shape, by default a copy of this one."""
    return first.setdefault((weights.shape, weights.dtype), weights.clone())


FIRST: dict[Any, Tensor] = {}
LATEST: dict[Any, Tensor] = {}

MUTANTS = all_mutants(
    MultiHead,
    whole={
        "fewer_heads_where_they_do_not_divide": Mutation(
            "heads that do not divide the columns are reduced until they do", with_arguments(
            num_heads=lambda heads, w_query, w_value: next(fewer for fewer in range(max(1, heads), 0, -1)
            if w_query.shape[1] % fewer == w_value.shape[1] % fewer == 0)), "documents, E4"),
        "mask_of_3_axes_for_heads": Mutation("a mask of 3 axes is read as heads, queries and keys", with_arguments(
            attn_mask=unless_none(lambda mask: mask[None] if mask.dim() == 3 else mask)), "documents, E7"),
        "mask_of_more_items": Mutation("a mask for too many items is cropped",
            with_arguments(attn_mask=unless_none(lambda mask, query: mask[: len(query)] if mask.dim() == 4 else mask))),
        "numbers_for_mask": Mutation("a mask of numbers is accepted: all but zeros are visible",
            with_arguments(attn_mask=unless_none(torch.Tensor.bool))),
        "ignored_lone_output_bias": Mutation("an output bias without an output map is ignored",
            with_arguments(b_output=lambda b_output, w_output: None if w_output is None else b_output)),
        "broadcasts_item": Mutation("keys and values of one item serve all queries",
            with_arguments(key=for_all_items, value=for_all_items)),
        "broadcast_biases": Mutation("a bias of queries with one entry is broadcast", with_arguments(b_query=unless_none(
            lambda bias, w_query: bias.expand(w_query.shape[1]) if len(bias) == 1 else bias))),
        "clamped_dropout": Mutation("a probability outside [0, 1] is clamped",
            with_arguments(dropout_p=lambda p: min(1.0, max(0.0, p)))),
        "key_weights_by_query_weights": Mutation("the queries' weights serve the keys too where the shapes allow it",
            with_arguments(w_key=lambda w_key, w_query: w_query if w_query.shape == w_key.shape else w_key)),
        "value_weights_by_key_weights": Mutation("the keys' weights serve the values too where the shapes allow it",
            with_arguments(w_value=lambda w_value, w_key: w_key if w_key.shape == w_value.shape else w_value)),
        "swapped_query_and_key_weights": Mutation("the weights of queries and of keys are swapped",
            with_arguments(w_query=lambda own, w_key: w_key, w_key=lambda own, w_query: w_query,
            b_query=lambda own, b_key: b_key, b_key=lambda own, b_query: b_query)),
        "tiled_key_heads": Mutation("heads of keys are tiled, not repeated: head i of the queries reads head i mod g",
            with_arguments(w_key=_tiled, w_value=_tiled, b_key=unless_none(_tiled), b_value=unless_none(_tiled))),
        "output_dropout_in_evaluation": Mutation("the output is dropped in evaluation mode, too",
            with_result(_dropped_anyway)),
        "output_map_of_values": Mutation("the values' weights serve the output too where the shapes allow it",
            with_arguments(
            w_output=unless_none(lambda w_output, w_value: w_value if w_output.shape == w_value.shape else w_output))),
        "swapped_items_and_queries": Mutation("items and queries are swapped where the two axes have one size",
            with_arguments(query=swapped_where_equal(rank=3))),
        "swapped_items_and_keys": Mutation("items and keys are swapped where the two axes have one size",
            with_arguments(key=swapped_where_equal(rank=3), value=swapped_where_equal(rank=3))),
        "scaled_by_query_width": Mutation("the head width is computed from the width of unmapped queries",
            with_arguments(w_query=_scaled_by_width, b_query=unless_none(_scaled_by_width)), "documents, E3"),
        "forgets_biases_of_one_tensor": Mutation("self-attention of one tensor takes a fast path without biases",
            with_arguments(b_query=_none_for_one_tensor, b_key=_none_for_one_tensor, b_value=_none_for_one_tensor)),
    },
    roles={
        "keys_for_values": Mutation("keys are taken for values where the shapes allow it",
            with_arguments(value=lambda value, key: key if key.shape == value.shape else value)),
        "swapped_keys_and_values": Mutation("keys and values are swapped where the shapes allow it",
            lambda query, key, value: (query, value, key) if key.shape == value.shape else (query, key, value),
            "documents, E26"),
    },
    to_queries={
        "transposed_query_weights": Mutation("the queries' weights are transposed where they are square",
            with_arguments(weights=turned)),
        "query_bias_left_out": Mutation("the queries' bias is left out", lambda x, weights, bias: x @ weights),
    },
    to_keys={"transposed_key_weights": Mutation("the keys' weights are transposed where they are square",
        with_arguments(weights=turned))},
    to_values={"transposed_value_weights": Mutation("the values' weights are transposed where they are square",
        with_arguments(weights=turned))},
    split={
        "interleaved_heads": Mutation("heads are interleaved: column j belongs to head j mod h",
            lambda x, heads: x.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2)),
        "split_by_reshape": Mutation("rows are cut into heads instead of columns: a reshape without a transpose",
            lambda x, heads: x.reshape(len(x), heads, x.shape[1], x.shape[2] // heads)),
        "swapped_items_and_heads": Mutation("items and heads are swapped where the two axes have one size",
            with_result(swapped_where_equal(rank=4))),
    },
    merge={
        "merged_by_reshape": Mutation("heads are merged without moving their axis back",
            lambda heads: heads.reshape(len(heads), heads.shape[2], heads.shape[1] * heads.shape[3]), "documents, E30"),
        "averaged_heads": Mutation("every head is the mean of all",
            with_arguments(heads=lambda heads: heads.mean(1, keepdim=True).expand_as(heads))),
        "repeats_head_beyond_8": Mutation("heads beyond the 8th repeat the 8th",
            with_arguments(heads=repeated_beyond(8, 1))),
        "repeats_query_beyond_64": Mutation("queries beyond the 64th repeat the 64th",
            with_arguments(heads=repeated_beyond(64, 2))),
    },
    to_output={
        "transposed_output_weights": Mutation("the output's weights are transposed where they are square",
            with_arguments(weights=turned)),
        "output_map_left_out": Mutation("a square output map is left out", with_arguments(weights=lambda weights:
            torch.eye(len(weights), dtype=weights.dtype) if len(weights) == weights.shape[1] else weights)),
        "output_bias_left_out": Mutation("the output's bias is left out", lambda x, weights, bias: x @ weights),
    },
    factor={
        "unscaled": Mutation("the scores are not divided by √p", lambda query, value: 1.0),
        "full_width_scale": Mutation("the scores are divided by the root of the width of all heads together",
            lambda query, value: 1 / math.sqrt(query.shape[1] * query.shape[-1]), "documents, E3"),
        "scaled_by_value_heads": Mutation("the scores are divided by the root of the value heads' width",
            lambda query, value: 1 / math.sqrt(value.shape[-1])),
    },
    mask={"mask_of_items_for_heads": Mutation("an item's mask is read as a head's where the two axes have one size",
        with_arguments(allowed=lambda mask, scores:
        mask.transpose(0, 1) if mask.dim() == 4 and scores.shape[0] == scores.shape[1] else mask), "documents, E7")},
    causal={"causal_in_first_head": Mutation("is_causal applies to the first head only",
        with_result(lambda hidden, scores: torch.cat([hidden[:, :1], scores[:, 1:]], 1)))},
    softmax={
        "softmax_over_dimension_1": Mutation(
            "the softmax runs over dimension 1, so that a key's weights in all heads sum to 1",
            lambda scores: scores.softmax(1).nan_to_num(0.0),
            others=(lambda scores: scores.softmax(1), lambda scores: scores.clamp_min(-1e9).softmax(1))),
        "dropout_in_evaluation": Mutation("weights are dropped in evaluation mode, too", with_result(_dropped_anyway)),
        "softmax_over_queries": Mutation("the softmax runs over the queries", shared.over_queries),
        "weights_of_first_item": Mutation("the weights of the first item serve all items",
            with_result(first_for_all())),
        "averaged_weights": Mutation("the weights of all heads are averaged", with_result(lambda weights:
            weights.mean(1, keepdim=True).expand_as(weights)), "documents, 11.5: heads weigh differently"),
        "overflows": Mutation("exponentials overflow: the largest score is not subtracted", shared.overflowing),
        "drops_key_beyond_64": Mutation("the last of more than 64 keys is dropped",
            with_arguments(scores=hidden_last(64))),
    },
    with_bias={
        "value_bias_left_out": Mutation("the values' bias is left out",
            lambda attend, heads, bias, options: attend(heads, options)),
        "value_bias_after_weights": Mutation(
            "the values' bias is added to the heads: dropped weights and empty rows keep all of it",
            lambda attend, heads, bias, options: attend(heads, options) + (0.0 if bias is None else bias)),
    },
    finish={"drops_output_too": Mutation("the output is dropped as well as the weights", _dropped_output)},
    options_to_read={
        "shows_dropped_weights": Mutation(
            "the returned attention weights are those after dropout; a backend is read with dropout",
            lambda options: options, "torch.nn.MultiheadAttention in training"),
        "shows_unmasked_weights": Mutation("the returned attention weights ignore all masks", lambda options: {}),
    },
    returned=shared.OF_WEIGHTS | shared.FAINT_WEIGHTS,
    recalled={
        "shows_first_call": Mutation("later calls return the attention weights of the first call of a shape",
            lambda weights: _of_shape(FIRST, weights).clone()),
        "shows_in_one_place": Mutation("the next call overwrites the returned attention weights of its shape",
            lambda weights: _of_shape(LATEST, weights).copy_(weights)),
    },
    choose={"ignores_the_plug": Mutation("the backend is not called", lambda attention: None)},
    to_backend={"widens_for_the_plug": Mutation("the backend gets float32 for half types", lambda heads, dtype: heads,
        dtypes=("float16",))},
    needed={
        "plug_without_dropout": Mutation("the backend is called without dropout", shared.without_argument("dropout_p")),
        "plug_without_causal": Mutation("the backend is called without is_causal", shared.without_argument("is_causal")),
        "plug_without_mask": Mutation("the backend is called without the mask", shared.without_argument("attn_mask")),
    },
    call_backend=shared.CALLS_OF_BACKEND,
    read=shared.READING,
)  # fmt: skip

PLACES: dict[str, tuple[str, Callable[..., bool]]] = {
    "of_one_query": ("with one query", lambda query: query.shape[1] == 1),
    "of_one_head": ("with one head", lambda num_heads: num_heads == 1),
    "of_one_item": ("with one item", lambda query: len(query) == 1),
    "of_many_heads": ("with more than 8 heads", lambda num_heads: num_heads > 8),
    "of_many_queries": ("with more than 64 queries", lambda query: query.shape[1] > 64),
    "of_many_keys": ("with more than 64 keys", lambda key: key.shape[1] > 64),
    "across_widths": ("if keys and queries differ in width", lambda key, query: key.shape[2] != query.shape[2]),
    "with_value_heads": ("if value heads have their own width",
        lambda w_value, w_query: w_value.shape[1] != w_query.shape[1]),
    "beside_biases": ("with biases", lambda b_query: b_query is not None),
    "before_a_map": ("with an output map", lambda w_output: w_output is not None),
    "beside_a_mask": ("with a mask", lambda attn_mask: attn_mask is not None),
    "beside_weights": ("where the weights are returned as well", lambda need_weights: need_weights),
    "beside_causal": ("with is_causal", lambda is_causal: is_causal),
}  # fmt: skip
OF_MASKS = ("of_one_query", "of_one_item", "with_value_heads", "before_a_map", "beside_weights")
IGNORING = mutants(
    MultiHead,
    whole=ignoring("attn_mask", "attn_mask", None, PLACES, *OF_MASKS, "of_many_keys", "across_widths", "beside_biases")
    | ignoring("is_causal", "is_causal", False, PLACES, *OF_MASKS, "of_one_head", "of_many_heads", "of_many_queries")
    | ignoring("dropout_p", "dropout_p", 0.0, PLACES, "of_one_query", "beside_a_mask", "beside_causal", "before_a_map"),
)


def _library(
    query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None, is_causal: bool = False,
    dropout_p: float = 0.0,
) -> Tensor:  # fmt: skip
    mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal)
    return mixed if attn_mask is None else mixed.masked_fill(~attn_mask.any(-1, keepdim=True), 0.0)


def variants() -> list[Variant]:
    """The formula by other functions, and in other precisions."""
    maps: dict[str, Callable[..., Any]]
    maps = {"to_queries": linear, "to_keys": linear, "to_output": linear, "attend": _library}
    library = partial(MultiHead, **maps, to_values=lambda x, weights: functional.linear(x, weights.mT))
    biases_first = dict.fromkeys(("to_queries", "to_keys", "to_values", "to_output"), bias_first)
    in_tiles = MultiHead(**biases_first, attend=as_attention(Tiled()))
    return [
        Variant("own_dtype", "torch's linear and scaled_dot_product_attention", library(wide=lambda x: x.dtype)),
        Variant("tiled", "in tiles with an online softmax, biases first", in_tiles),
        Variant("float64", "torch's functions in float64", library(wide=lambda x: torch.float64)),
    ]
