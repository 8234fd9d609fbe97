"""Small mistakes in half types, which show only in many numbers taken together."""

from __future__ import annotations

from attnsuite.cases.layouts import INPUTS
from attnsuite.cases.tensors import HALF
from attnsuite.contracts.attention.cases.case import AttentionCase


def half() -> list[AttentionCase]:
    """Numbers of which none is off by a rounding of its own, and all together by far more than roundings come to."""
    return [
        AttentionCase("half/one_key_of_many", "1,024 keys of equal weight: each counts once", batch=1, heads=1, queries=64, keys=1024, width=16, value_width=128, draw="even_weights", dtypes=HALF),
        AttentionCase("half/one_tile_of_four", "a hundredth of one tile's weight, half a hundredth of the scale", batch=1, heads=1, queries=64, keys=256, width=16, value_width=128, draw="even_weights", dtypes=HALF),
        AttentionCase("half/late_edge", "the first hidden key of long rows", batch=1, heads=1, queries=384, keys=384, width=16, value_width=64, draw="even_weights", causal=True, dtypes=HALF),
        AttentionCase("half/to_nearest", "numbers are rounded to the nearest, not towards zero", batch=1, heads=2, queries=64, keys=64, width=16, value_width=64, draw="even_weights_of_offset_values", dtypes=HALF),
        AttentionCase("half/gradients", "gradients of 128 queries and 256 keys", batch=1, heads=1, queries=128, keys=256, width=16, value_width=64, draw="even_weights", gradient_of=INPUTS, dtypes=HALF),
    ]  # fmt: skip
