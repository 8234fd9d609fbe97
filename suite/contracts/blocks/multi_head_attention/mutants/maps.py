"""Mistakes in what is accepted, in the linear maps and their biases, and in parting into heads and joining again."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnsuite.cases.mutants import (
    Mutation,
    for_all_items,
    mutants,
    repeated_beyond,
    swapped_where_equal,
    turned,
    unless_none,
    with_arguments,
    with_result,
)
from attnsuite.contracts.blocks.multi_head_attention.mutants.staged import MultiHead, mapped


def fewer_heads(heads: int, w_query: Tensor, w_value: Tensor) -> int:
    while heads > 1 and (w_query.shape[1] % heads or w_value.shape[1] % heads):
        heads -= 1
    return max(1, heads)


def for_all_columns(bias: Tensor, weights: Tensor) -> Tensor:
    return bias.expand(weights.shape[1]) if len(bias) == 1 else bias


def none_of_one_tensor(bias: Tensor | None, query: Tensor, key: Tensor, value: Tensor) -> Tensor | None:
    return None if query is key is value else bias


def without_bias(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    return x @ weights


def left_out_where_square(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    if weights.shape[0] != weights.shape[1]:
        return mapped(x, weights, bias)
    return x.clone() if bias is None else x + bias


def bias_before_map(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    if bias is None or weights.shape[0] != weights.shape[1]:
        return mapped(x, weights, bias)
    return (x + bias) @ weights


MUTANTS = mutants(
    MultiHead,
    whole={
        "fewer_heads_where_they_do_not_divide": Mutation(
            "heads that do not divide the columns become as many as do",
            with_arguments(num_heads=fewer_heads),
            "documents, E4",
        ),
        "mask_of_3_axes_for_heads": Mutation(
            "a mask of 3 axes is read as heads, queries and keys",
            with_arguments(attn_mask=unless_none(lambda mask: mask[None] if mask.dim() == 3 else mask)),
            "documents, E7",
        ),
        "mask_of_more_items": Mutation(
            "of a mask for more items than there are the first serve",
            with_arguments(attn_mask=unless_none(lambda mask, query: mask[: len(query)] if mask.dim() == 4 else mask)),
        ),
        "numbers_for_mask": Mutation(
            "numbers are taken for a mask: all but zeros may be attended to",
            with_arguments(attn_mask=unless_none(torch.Tensor.bool)),
        ),
        "ignored_lone_output_bias": Mutation(
            "an output bias without an output map is ignored",
            with_arguments(b_output=lambda b_output, w_output: None if w_output is None else b_output),
        ),
        "broadcasts_item": Mutation(
            "keys and values of one item serve all queries", with_arguments(key=for_all_items, value=for_all_items)
        ),
        "broadcast_biases": Mutation(
            "a bias of width 1 is added to all columns",
            with_arguments(
                b_query=unless_none(lambda bias, w_query: for_all_columns(bias, w_query)),
                b_key=unless_none(lambda bias, w_key: for_all_columns(bias, w_key)),
                b_value=unless_none(lambda bias, w_value: for_all_columns(bias, w_value)),
            ),
        ),
        "clamped_dropout": Mutation(
            "a probability outside [0, 1] is taken for the nearest inside",
            with_arguments(dropout_p=lambda p: min(1.0, max(0.0, p))),
        ),
        "key_weights_by_query_weights": Mutation(
            "the queries' weights serve the keys too where their shapes allow it",
            with_arguments(w_key=lambda w_key, w_query: w_query if w_query.shape == w_key.shape else w_key),
        ),
        "value_weights_by_key_weights": Mutation(
            "the keys' weights serve the values too where their shapes allow it",
            with_arguments(w_value=lambda w_value, w_key: w_key if w_key.shape == w_value.shape else w_value),
        ),
        "swapped_query_and_key_weights": Mutation(
            "the weights of queries and keys are swapped where they have one shape",
            with_arguments(
                w_query=lambda w_query, w_key: w_key if w_query.shape == w_key.shape else w_query,
                w_key=lambda w_key, w_query: w_query if w_query.shape == w_key.shape else w_key,
            ),
        ),
        "one_bias_for_queries_and_keys": Mutation(
            "the queries' bias is that of the keys where there is one",
            with_arguments(b_query=lambda b_query, b_key: b_query if b_key is None or b_query is None else b_key),
        ),
        "output_map_of_values": Mutation(
            "the values' weights serve the output too where their shapes allow it",
            with_arguments(
                w_output=unless_none(lambda w_output, w_value: w_value if w_output.shape == w_value.shape else w_output)
            ),
        ),
        "swapped_items_and_queries": Mutation(
            "items and queries are swapped where there are as many",
            with_arguments(query=swapped_where_equal(of_rank=3)),
        ),
        "swapped_items_and_keys": Mutation(
            "items and keys are swapped among keys and values where there are as many",
            with_arguments(key=swapped_where_equal(of_rank=3), value=swapped_where_equal(of_rank=3)),
        ),
        "forgets_biases_of_one_tensor": Mutation(
            "where one tensor is query, key and value, a fast path forgets the biases",
            with_arguments(b_query=none_of_one_tensor, b_key=none_of_one_tensor, b_value=none_of_one_tensor),
        ),
    },
    roles={
        "keys_for_values": Mutation(
            "keys are taken for values where they have one shape",
            with_arguments(value=lambda value, key: key if key.shape == value.shape else value),
        ),
        "swapped_keys_and_values": Mutation(
            "keys and values are swapped where they have one shape",
            lambda query, key, value: (query, value, key) if key.shape == value.shape else (query, key, value),
            "documents, E26",
        ),
        "queries_from_keys": Mutation(
            "queries are taken from the keys where they have one shape: self-attention",
            with_arguments(query=lambda query, key: key if key.shape == query.shape else query),
        ),
    },
    to_queries={
        "transposed_query_weights": Mutation(
            "the queries' weights are transposed where they are square", with_arguments(weights=turned)
        ),
        "query_bias_left_out": Mutation("the queries' bias is left out", without_bias),
    },
    to_keys={
        "transposed_key_weights": Mutation(
            "the keys' weights are transposed where they are square", with_arguments(weights=turned)
        )
    },
    to_values={
        "transposed_value_weights": Mutation(
            "the values' weights are transposed where they are square", with_arguments(weights=turned)
        )
    },
    split={
        "interleaved_heads": Mutation(
            "heads are interleaved: column j belongs to head j mod h",
            lambda x, heads: x.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2),
        ),
        "split_by_reshape": Mutation(
            "rows are cut into heads instead of columns: a reshape without a transpose",
            lambda x, heads: x.reshape(len(x), heads, x.shape[1], x.shape[2] // heads),
        ),
        "swapped_items_and_heads": Mutation(
            "items and heads are swapped where there are as many, and never swapped back",
            with_result(swapped_where_equal(of_rank=4)),
        ),
        "repeated_first_head": Mutation(
            "all heads are the first", with_result(lambda parts, heads: parts[:, :1].expand(-1, heads, -1, -1))
        ),
    },
    factor={
        "unscaled": Mutation("the scores are not divided by √p", lambda queries, values, query: 1.0),
        "full_width_scale": Mutation(
            "the scores are divided by the root of the width of all heads together",
            lambda queries, values, query: 1 / math.sqrt(queries.shape[1] * queries.shape[-1]),
            "documents, E3",
        ),
        "divided_by_head_width": Mutation(
            "the scores are divided by p instead of √p", lambda queries, values, query: 1 / queries.shape[-1]
        ),
        "scaled_by_value_heads": Mutation(
            "the scores are divided by the root of the value heads' width",
            lambda queries, values, query: 1 / math.sqrt(values.shape[-1]),
        ),
        "scaled_by_query_width": Mutation(
            "the head width is taken from the queries before they are mapped",
            lambda queries, values, query: 1 / math.sqrt(query.shape[-1] / queries.shape[1]),
            "documents, E3",
        ),
    },
    merge={
        "merged_by_reshape": Mutation(
            "heads are joined without moving their axis back behind the queries",
            lambda heads: heads.reshape(len(heads), heads.shape[2], heads.shape[1] * heads.shape[3]),
            "documents, E30",
        ),
        "merged_column_by_column": Mutation(
            "the columns of heads are interleaved when they are joined",
            lambda heads: heads.permute(0, 2, 3, 1).flatten(2),
        ),
        "merged_in_reverse": Mutation("the heads are joined in reverse", with_arguments(heads=lambda x: x.flip(1))),
        "averaged_heads": Mutation(
            "every head gives the mean of all",
            with_arguments(heads=lambda heads: heads.mean(1, keepdim=True).expand_as(heads)),
        ),
        "repeats_head_beyond_8": Mutation(
            "heads beyond the 8th answer like the 8th", with_arguments(heads=repeated_beyond(8, 1))
        ),
        "repeats_query_beyond_64": Mutation(
            "queries beyond the 64th are answered like the 64th", with_arguments(heads=repeated_beyond(64, 2))
        ),
    },
    to_output={
        "transposed_output_weights": Mutation(
            "the output's weights are transposed where they are square", with_arguments(weights=turned)
        ),
        "output_map_left_out": Mutation("the output map is left out where it is square", left_out_where_square),
        "output_bias_left_out": Mutation("the output's bias is left out", without_bias),
        "output_bias_before_map": Mutation(
            "the output's bias is added before the map where it is square", bias_before_map
        ),
    },
)
