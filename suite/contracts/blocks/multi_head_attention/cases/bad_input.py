"""Inputs that no multi-head attention is defined for."""

from __future__ import annotations

from collections.abc import Iterator

from attnsuite.cases.bad_input import BadInputCase
from attnsuite.contracts.blocks.multi_head_attention.cases.decisions import of
from attnsuite.contracts.blocks.multi_head_attention.cases.draws import asked


def bad_input() -> Iterator[BadInputCase]:
    """Heads, shapes, biases, masks and probabilities that do not fit."""
    return asked.refused(
        ("heads", "3 heads for 8 columns", {"num_heads": 3, "width": 8}),
        ("no_heads", "0 heads", {"num_heads": 0, "width": 8}),
        ("negative_heads", "−2 heads", {"num_heads": -2, "width": 8}),
        ("value_heads", "2 heads for 5 columns of values", {"w_value": (8, 5)}),
        ("rank", "queries without items", {"query": (5, 8)}),
        ("query_width", "queries of width 7 beside weights for 8", {"query": (2, 5, 7)}),
        ("key_width", "keys of width 6 beside weights for 8", {"key": (2, 7, 6)}),
        ("value_width", "values of width 9 beside weights for 8", {"value": (2, 7, 9)}),
        ("columns", "8 columns for queries and 6 for keys", {"w_key": (8, 6)}),
        ("output_map", "an output map for 6 of 8 columns", {"w_output": (6, 5)}),
        ("query_bias", "a bias of 1 for 8 columns of queries, which would broadcast", {"b_query": (1,)}),
        ("key_bias", "a bias of 9 for 8 columns of keys", {"b_key": (9,)}),
        ("value_bias", "a bias of 7 for 8 columns of values", {"b_value": (7,)}),
        ("output_bias", "a bias of 8 for an output of width 5", {"out_width": 5, "b_output": (8,)}),
        ("lone_output_bias", "an output bias of 8 without an output map", {"b_output": (8,)}),
        ("lengths", "7 keys beside 8 values", {"value": (2, 8, 8)}),
        ("batches", "2 items of queries and 3 of keys", {"key": (3, 7, 8), "value": (3, 7, 8)}),
        ("one_item", "keys of 1 item, which would broadcast to 2", {"key": (1, 7, 8), "value": (1, 7, 8)}),
        ("mask_keys", "a mask for 6 of 7 keys", {"mask": of(5, 6)}),
        ("mask_queries", "a mask for 4 of 5 queries", {"mask": of(2, 2, 4, 7)}),
        ("mask_heads", "a mask for 3 of 2 heads", {"mask": of(2, 3, 5, 7)}),
        ("mask_items", "a mask for 3 items where there is 1", {"batch": 1, "mask": of(3, 1, 5, 7)}),
        ("mask_rank", "a mask of 3 axes, which may be items or heads", {"mask": of(2, 5, 7)}),
        ("float_mask", "a mask of numbers", {"attn_mask": (2, 2, 5, 7)}),
        ("dropout_above_1", "dropout with probability 1.5", {"dropout_p": 1.5}),
        ("dropout_below_0", "dropout with probability −0.1", {"dropout_p": -0.1}),
    )
