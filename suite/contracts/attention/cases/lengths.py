"""Lengths at which counters, grids and positions of few bits end: 2¹¹, 2¹³, 2¹⁵, 2¹⁶."""

from __future__ import annotations

from typing import Any

from attnsuite.cases.tensors import FAST
from attnsuite.contracts.attention.cases.case import AttentionCase

HALF = ("float16", "bfloat16")


def lengths() -> list[AttentionCase]:
    """One axis is long, the others are as short as they can be; where both have to be long, there is one head."""
    one: dict[str, Any] = {"batch": 1, "heads": 1}
    long = {**one, "queries": 2101, "keys": 2110, "draw": "leaning_ahead", "width": 32}
    ahead = "positions of ten bits end below 2,049: each query leans to the first key that is hidden"
    tile = {**one, "queries": 261, "keys": 270, "draw": "leaning_ahead", "width": 32, "dtypes": HALF}
    return [
        AttentionCase("lengths/70000_keys", "one query, and more keys than sixteen bits count", queries=1, keys=70_000, dtypes=FAST, **one),
        AttentionCase("lengths/33000_queries", "more queries than fifteen bits count", queries=33_000, keys=3, dtypes=FAST, **one),
        AttentionCase("lengths/130_heads", "more than 128 heads", batch=1, heads=130, queries=3, keys=5),
        AttentionCase("lengths/causal", ahead, causal=True, dtypes=("float16",), **long),
        AttentionCase("lengths/windowed", ahead, window=(None, 0), dtypes=("float16",), **long),
        AttentionCase("lengths/causal_tile", "the same in bfloat16, whose eight bits end at 256", causal=True, **tile),
        AttentionCase("lengths/windowed_tile", "the same of a window", window=(30, 0), **tile),
    ]  # fmt: skip
