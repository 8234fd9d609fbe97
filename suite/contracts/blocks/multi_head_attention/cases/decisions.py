"""What the contract decides, a family per decision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from attnsuite.cases import Case
from attnsuite.cases.formula import repeated
from attnsuite.cases.layouts import LayoutCase, as_one_tensor
from attnsuite.cases.tensors import PRECISE, Array, Generator, valid
from attnsuite.contracts.blocks.multi_head_attention.cases.draws import Mask, asked
from attnsuite.contracts.blocks.multi_head_attention.contract import BIASES, INPUT_BIASES

SEVERAL = np.array([3e-3, 1.0])[:, None, None]
"""Sizes of the inputs of two items."""


EVERYTHING: dict[str, Any] = {
    "batch": 1,
    "num_heads": 12,
    "head_width": 2,
    "value_head_width": 3,
    "key_width": 5,
    "queries": 66,
    "keys": 67,
    "out_width": 5,
    "biases": BIASES,
}
"""What mask or causal rule may be forgotten beside: options, and sizes beyond tiles."""


def of(*shape: int) -> Mask:
    """A mask of that shape, by which a query may attend to most keys."""
    return lambda random: random.random(shape) < 0.6


def plain() -> Iterator[Case]:
    """Maps of the inputs and two heads."""
    yield asked("plain/usual", "two heads of queries and keys")
    yield asked("plain/one_of_each", "one item, query, key and head of width 1", batch=1, queries=1, keys=1, num_heads=1, head_width=1)  # fmt: skip
    yield asked("plain/square", "all sizes equal: axes that were swapped still fit", batch=4, queries=4, keys=4, num_heads=4)  # fmt: skip
    yield asked("plain/many_keys", "a last key among many", queries=2, keys=129)
    yield asked("plain/many_queries", "more queries than keys", queries=67, keys=3)
    yield asked("plain/no_keys", "nothing to attend to gives zeros", keys=0)
    yield asked("plain/no_queries", "nobody asks", queries=0)
    yield asked("plain/no_items", "an empty batch", batch=0)
    yield asked("plain/wide", "a width in which single precision shows", batch=1, queries=3, keys=5, head_width=64)


def heads() -> Iterator[Case]:
    """Other numbers of heads than two."""
    yield asked("heads/one", "a single head of the whole width", num_heads=1, head_width=8)
    yield asked("heads/three", "an odd number of heads", num_heads=3)
    yield asked("heads/many", "more heads than vectors are long", num_heads=12, head_width=2)
    yield asked("heads/many_masked", "under a mask, with other widths, biases, a map, and many queries and keys", PRECISE,
                   mask=of(1, 12, 66, 67), **EVERYTHING)  # fmt: skip
    yield asked("heads/many_causal", "the same under the causal rule", PRECISE, is_causal=True, **EVERYTHING)
    yield asked("heads/narrow", "heads of a single column", num_heads=5, head_width=1)
    yield asked("heads/as_many_as_keys", "as many heads as queries and keys", queries=3, keys=3, num_heads=3)


def widths() -> Iterator[Case]:
    """Cross-attention between inputs of different widths, and value heads of a width of their own."""
    yield asked("widths/keys_and_values", "keys and values of their own widths", key_width=5, value_width=3)
    yield asked("widths/query", "queries wider than all heads together", query_width=18)
    yield asked("widths/all", "three different widths", query_width=6, key_width=5, value_width=3)
    yield asked("widths/narrow_values", "value heads narrower than those of queries and keys", value_head_width=3)
    yield asked("widths/wide_values", "value heads wider than those of queries and keys", value_head_width=9)
    yield asked("widths/mapped_values", "the same, and an output map", value_head_width=3, out_width=5)


def bias() -> Iterator[Case]:
    """What is added to the maps."""
    yield asked("bias/query", "the queries' alone", biases=("b_query",))
    yield asked("bias/key", "the keys' alone, which changes no weight", biases=("b_key",))
    yield asked("bias/value", "the values' alone", biases=("b_value",))
    yield asked("bias/inputs", "all but the output's", biases=INPUT_BIASES)
    yield asked("bias/output", "the output's alone", out_width=5, biases=("b_output",))
    yield asked("bias/all", "all four", out_width=5, biases=BIASES)
    one_input = asked("bias/one_input", "one tensor is given as query, key and value", keys=5, biases=INPUT_BIASES)
    yield LayoutCase(one_input, as_one_tensor)


def output_map() -> Iterator[Case]:
    """The map of the heads' outputs."""
    yield asked("output_map/square", "a matrix that could be transposed", out_width=8)
    yield asked("output_map/square_biased", "its bias, which is added after it", out_width=8, biases=("b_output",))
    yield asked("output_map/narrow", "an output narrower than the heads together", out_width=3)
    yield asked("output_map/wide", "an output wider than the heads together", out_width=11)
    yield asked("output_map/one_head", "the map of a single head", num_heads=1, head_width=8, out_width=5)


def with_empty_rows(random: Generator) -> Array:
    """Each query of each of two heads of two items has keys of its own, and some have none."""
    mask: Array = random.random((2, 2, 5, 7)) < 0.6
    mask[0, 1, 2] = mask[1, :, 4] = False
    return mask


def masks() -> Iterator[Case]:
    """Boolean masks, broadcast along every axis. There are as many heads as items."""
    yield asked("mask/whole", "each query of each head of each item has keys of its own", mask=of(2, 2, 5, 7))
    yield asked("mask/by_item_and_query", "the same for all heads", mask=of(2, 1, 5, 7))
    yield asked("mask/by_item", "lengths: the same for all heads and queries", mask=lambda _: valid([3, 6], 7)[:, None])  # fmt: skip
    yield asked("mask/by_head", "the same for all items", mask=of(1, 2, 5, 7))
    yield asked("mask/by_query", "two axes: the same for all items and heads", mask=of(5, 7))
    yield asked("mask/by_key", "two axes, one of them of length 1", mask=of(1, 7))
    yield asked("mask/as_many_items", "two axes are those of queries and keys, though there are as many items",
                   queries=2, mask=of(2, 7))  # fmt: skip
    yield asked("mask/square", "a mask whose queries and keys could be swapped", queries=7, mask=of(2, 1, 7, 7))
    yield asked("mask/all", "a mask that hides nothing", mask=lambda _: np.ones((2, 1, 5, 7), bool))
    yield asked("mask/one_item", "more heads than items", batch=1, num_heads=3, mask=of(1, 3, 5, 7))
    yield asked("mask/one_query", "a single query and a single head", PRECISE, batch=3, queries=1, num_heads=1,
                   head_width=8, mask=of(3, 1, 1, 7))  # fmt: skip
    yield asked("mask/empty_rows", "queries that may attend to nothing give zeros", mask=with_empty_rows)
    yield asked("mask/empty_rows_mapped", "they give the map of the other heads, and the output's bias, but not the values'",
                   mask=with_empty_rows, out_width=5, biases=("b_value", "b_output"))  # fmt: skip


def causal() -> Iterator[Case]:
    """No query looks ahead."""
    yield asked("causal/square", "as many keys as queries", queries=6, keys=6, is_causal=True)
    yield asked("causal/one_query", "a single query sees the first key alone, by a single head", PRECISE, queries=1,
                   num_heads=1, head_width=8, is_causal=True)  # fmt: skip
    yield asked("causal/wide", "more keys than queries: aligned at the upper left", queries=4, is_causal=True)
    yield asked("causal/high", "more queries than keys: aligned at the upper left", queries=7, keys=4, is_causal=True)
    yield asked("causal/long", "the last of many queries looks back on all", batch=1, queries=67, keys=70,
                   is_causal=True)  # fmt: skip
    yield asked("causal/low_scores", "scores of what may be attended to lie below −10⁴ in one item, below −10⁹ in the other",
                   PRECISE, queries=3, peak=3e10, size=SEVERAL, is_causal=True)  # fmt: skip
    yield asked("causal/mapped", "biases and an output map", queries=6, keys=6, out_width=5, biases=("b_value", "b_output"),
                   is_causal=True)  # fmt: skip


def weights() -> Iterator[Case]:
    """The weights of every head beside the output."""
    alike: dict[str, Any] = {"batch": 3, "queries": 3, "keys": 3, "num_heads": 3, "head_width": 3}
    yield asked("weights/usual", "of every head, as its values are multiplied by them", need_weights=True)
    yield asked("weights/masked", "0 where a query may not attend, and in all of an empty row", mask=with_empty_rows,
                out_width=5, biases=BIASES, need_weights=True)  # fmt: skip
    yield asked("weights/causal", "0 for what comes after a query", queries=7, is_causal=True, need_weights=True)
    yield asked("weights/square", "as many heads as items, queries and keys", PRECISE, need_weights=True, **alike)
    yield asked(
        "weights/no_keys", "there are none where nothing can be attended to", PRECISE, keys=0, need_weights=True
    )
    yield asked("weights/many_keys", "sums of many terms", keys=129, peak=1.0, need_weights=True)
    yield repeated(asked("again/weights", "of each call its own", PRECISE, need_weights=True))
    yield asked("weights/large_scores", "scores of which a naive exponential overflows", PRECISE, peak=400.0,
                need_weights=True)  # fmt: skip


def layouts() -> Iterator[Case]:
    """Inputs, weights and masks that do not lie in memory row by row."""
    return asked.layouts(
        ("mapped", "an output map that lies so too", {"out_width": 5}),
        ("masked", "a mask that lies so too", {"mask": of(2, 2, 5, 7)}),
    )


def numerics() -> Iterator[Case]:
    """Large and small numbers."""
    lengths = valid([1, 2], 7)[:, None]
    yield asked("numerics/low_scores", "scores of what may be attended to lie below −10⁴ in one item, below −10⁹ in the other",
                   PRECISE, peak=3e10, size=SEVERAL, mask=lambda _: lengths)  # fmt: skip
    yield asked("numerics/small", "scores so small that all weights are nearly equal", size=1e-2)
    yield asked("numerics/large_scores", "scores of which a naive exponential overflows", PRECISE, peak=400.0)
