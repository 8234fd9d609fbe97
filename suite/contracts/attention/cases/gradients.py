"""Gradients of query, key and value, in every dtype."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from attnsuite.cases import Call, Case
from attnsuite.cases.layouts import INPUTS, LayoutCase
from attnsuite.cases.tensors import FAST
from attnsuite.contracts.attention.cases.case import AttentionCase


def gradients() -> list[AttentionCase]:
    """Gradients agree with the oracle's, element by element."""
    return [
        AttentionCase("gradients/plain", "all three at once", gradient_of=INPUTS),
        *(AttentionCase(f"gradients/{name}_alone", f"only {name} requires a gradient", gradient_of=(name,)) for name in INPUTS),
        AttentionCase("gradients/query_and_key", "value requires none", gradient_of=("query", "key")),
        AttentionCase("gradients/value_width", "another value width", gradient_of=INPUTS, value_width=5),
        AttentionCase("gradients/rank_2", "without leading axes", gradient_of=INPUTS, rank=2, batch=1, heads=1),
        AttentionCase("gradients/rank_3", "with one leading axis", gradient_of=INPUTS, rank=3, batch=1, heads=3),
        AttentionCase("gradients/one_key", "softmax over one key passes nothing to the scores", gradient_of=INPUTS, keys=1),
        AttentionCase("gradients/one_query", "decoding", gradient_of=INPUTS, queries=1, keys=20),
        AttentionCase("gradients/wide_values", "values wider than queries", gradient_of=INPUTS, width=4, value_width=12),
        AttentionCase("gradients/coherent_queries", "1,025 equal terms add up without stagnating", gradient_of=("value",), batch=1, heads=1, queries=1025, keys=20, draw="equal_logits", layout={"output_gradient": "expanded_rows"}, dtypes=FAST),
        AttentionCase("gradients/equal_logits", "equal weights", gradient_of=INPUTS, draw="equal_logits"),
        AttentionCase("gradients/dominant_key", "a saturated softmax", gradient_of=INPUTS, draw="dominant_key", keys=20, dtypes=("float64", "float32", "float16")),
        AttentionCase("gradients/offset_values", "a common offset of the values cancels", gradient_of=("query", "key"), draw="offset_values"),
        AttentionCase("gradients/wide", "width 80", gradient_of=INPUTS, width=80),
        AttentionCase("gradients/tall_and_wide", "1,025 keys", gradient_of=INPUTS, batch=1, heads=1, queries=20, keys=1025, dtypes=FAST),
        AttentionCase("gradients/no_queries", "l = 0: the gradients of keys and values are zeros", gradient_of=INPUTS, queries=0),
        AttentionCase("gradients/no_items", "a batch of 0 has gradients of its shapes", gradient_of=INPUTS, batch=0),
        AttentionCase("gradients/many_queries", "1,025 queries", gradient_of=INPUTS, batch=1, heads=1, queries=1025, keys=20, dtypes=FAST),
    ]  # fmt: skip


def gradient_numerics() -> list[Case]:
    """The backward pass is as stable as the forward one: it subtracts the same maximum, and sums as wide."""
    of = AttentionCase("gradient_numerics/plain", "", gradient_of=INPUTS, queries=6, keys=20)
    tiled = of.but(queries=70, keys=130, width=16, batch=1, dtypes=FAST)
    return [
        of.but(name="gradient_numerics/far_below_zero", why="logits near −200: their maximum is subtracted backward too", draw="opposite_logits"),
        of.but(name="gradient_numerics/abysmal", why="logits near −23,000", draw="abysmal_logits"),
        tiled.but(name="gradient_numerics/far_below_zero_tiled", why="logits near −200 across tiles", draw="opposite_logits"),
        of.but(name="gradient_numerics/uneven_sizes", why="large queries, small keys", draw="uneven_sizes"),
        LayoutCase(of.but(name="gradient_numerics/large_upstream", why="values near 1,000 and output gradients near 100: their products exceed float16, what is left of them does not", draw="offset_values", gradient_of=("query", "key")), _hundredfold),
        LayoutCase(tiled.but(name="gradient_numerics/large_upstream_tiled", why="the same across tiles", draw="offset_values", gradient_of=("query", "key")), _hundredfold),
    ]  # fmt: skip


def _hundredfold(call: Call) -> Call:
    assert call.output_gradient is not None
    return replace(call, output_gradient=call.output_gradient * 128)  # a power of two, exact in every dtype


def gradient_sizes() -> list[AttentionCase]:
    """Tails of tiles, which a forward pass may get right and a backward pass wrong; and what meets there."""
    squares = (2, 8, 9, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257)
    met: dict[str, dict[str, Any]] = {
        "wide": {"queries": 70, "keys": 130},
        "tall": {"queries": 130, "keys": 70},
        "width_80": {"queries": 66, "keys": 130, "width": 80, "batch": 1},
        "width_128": {"queries": 66, "keys": 130, "width": 128, "batch": 1},
        "width_256": {"queries": 34, "keys": 130, "width": 256, "batch": 1},
    }
    return [
        *(backward(f"gradient_sizes/{size}", f"{size} queries and keys", queries=size, keys=size, dtypes=affordable(size)) for size in squares),
        *(backward(f"gradient_sizes/{name}", f"backward across tiles: {name.replace('_', ' ')}", **unusual) for name, unusual in met.items()),
    ]  # fmt: skip


def backward(name: str, why: str, **unusual: Any) -> AttentionCase:
    """Gradients of several items and heads, wide enough for a tile; not in float64 unless it says so, for the time."""
    usual: dict[str, Any] = {
        "gradient_of": INPUTS,
        "heads": 3,
        "width": 16,
        "dtypes": FAST,
    }
    return AttentionCase(name, why, **(usual | unusual))


def affordable(size: int) -> tuple[str, ...]:
    """float64 is judged in extended precision, which is slow: small sizes only."""
    small = ("float64",) if size <= 65 else ()
    return (*small, "float32", "float16", "bfloat16")
