"""Gradients of query, key, value and float mask, in every dtype, empty rows included."""

from __future__ import annotations

from typing import Any

from suite.asking.layouts import INPUTS
from suite.contracts.attention.cases.case import Case
from suite.contracts.attention.cases.masks import Mask

WITH_MASK = (*INPUTS, "attn_mask")


def gradients() -> list[Case]:
    """Gradients agree with the oracle's, element by element."""
    return [
        Case("gradients/plain", "all three at once", gradient_of=INPUTS),
        *(Case(f"gradients/{name}_alone", f"only {name} requires a gradient", gradient_of=(name,)) for name in INPUTS),
        Case("gradients/query_and_key", "value requires none", gradient_of=("query", "key")),
        Case("gradients/scaled", "an explicit scale enters twice", gradient_of=INPUTS, scale=0.6),
        Case("gradients/scale_zero", "scale 0: no gradient for query and key", gradient_of=INPUTS, scale=0.0),
        Case("gradients/scale_negative", "the sign of the scale", gradient_of=INPUTS, scale=-0.5),
        Case("gradients/scaled_grouped", "a scale with grouped heads", gradient_of=INPUTS, scale=0.6, heads=4, key_heads=2),
        Case("gradients/causal", "hidden keys get no gradient", gradient_of=INPUTS, causal=True, queries=7),
        Case("gradients/causal_wide", "keys beyond the last query get exactly none", gradient_of=INPUTS, causal=True, queries=4, keys=9),
        Case("gradients/causal_tall", "more queries than keys", gradient_of=INPUTS, causal=True, queries=9, keys=4),
        Case("gradients/bool_mask", "hidden keys get no gradient", gradient_of=INPUTS, mask=Mask()),
        Case("gradients/bool_mask_padding", "a broadcast mask", gradient_of=INPUTS, mask=Mask(axes="b11s", pattern="padding")),
        Case("gradients/float_mask_fixed", "a float mask that requires none", gradient_of=INPUTS, mask=Mask("float")),
        Case("gradients/value_width", "another value width", gradient_of=INPUTS, value_width=5),
        Case("gradients/grouped", "summed over the query heads of a group", gradient_of=INPUTS, heads=6, key_heads=2),
        Case("gradients/grouped_key_alone", "summed over the group, key alone", gradient_of=("key",), heads=4, key_heads=1),
        Case("gradients/grouped_causal", "grouped and causal", gradient_of=INPUTS, heads=4, key_heads=2, causal=True, queries=9, keys=9),
        Case("gradients/rank_2", "without leading axes", gradient_of=INPUTS, rank=2, batch=1, heads=1),
        Case("gradients/rank_3", "with one leading axis", gradient_of=INPUTS, rank=3, batch=1, heads=3),
        Case("gradients/one_key", "softmax over one key passes nothing to the scores", gradient_of=INPUTS, keys=1),
        Case("gradients/one_query", "decoding", gradient_of=INPUTS, queries=1, keys=20),
        Case("gradients/wide_values", "values wider than queries", gradient_of=INPUTS, width=4, value_width=12),
        Case("gradients/coherent_queries", "1,025 equal terms add up without stagnating", gradient_of=("value",), batch=1, heads=1, queries=1025, keys=20, draw="equal_logits", layout={"output_gradient": "expanded_rows"}, dtypes=("float32", "float16", "bfloat16")),
        Case("gradients/equal_logits", "equal weights", gradient_of=INPUTS, draw="equal_logits"),
        Case("gradients/dominant_key", "a saturated softmax", gradient_of=INPUTS, draw="dominant_key", keys=20, dtypes=("float64", "float32", "float16")),
        Case("gradients/offset_values", "a common offset of the values cancels", gradient_of=("query", "key"), draw="offset_values"),
        Case("gradients/wide", "width 80", gradient_of=INPUTS, width=80),
        Case("gradients/tall_and_wide", "1,025 keys", gradient_of=INPUTS, batch=1, heads=1, queries=20, keys=1025, dtypes=("float32", "float16", "bfloat16")),
        Case("gradients/many_queries", "1,025 queries", gradient_of=INPUTS, batch=1, heads=1, queries=1025, keys=20, dtypes=("float32", "float16", "bfloat16")),
    ]  # fmt: skip


def gradient_sizes() -> list[Case]:
    """Tails of tiles, which a forward pass may get right and a backward pass wrong; and what meets there."""
    squares = (2, 8, 9, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257)
    met: dict[str, dict[str, Any]] = {
        "wide": {"queries": 70, "keys": 130},
        "tall": {"queries": 130, "keys": 70},
        "causal_wide": {"queries": 70, "keys": 130, "causal": True},
        "causal_tall": {"queries": 130, "keys": 70, "causal": True},
        "causal_scaled": {"queries": 70, "keys": 70, "causal": True, "scale": 0.4},
        "masked": {"queries": 65, "keys": 129, "mask": Mask()},
        "biased": {"queries": 65, "keys": 129, "mask": Mask("float")},
        "grouped": {"queries": 65, "keys": 129, "heads": 4, "key_heads": 2},
        "grouped_causal": {"queries": 129, "keys": 129, "heads": 4, "key_heads": 2, "causal": True},
        "grouped_masked": {"queries": 20, "keys": 70, "heads": 6, "key_heads": 3, "mask": Mask()},
        "width_80": {"queries": 66, "keys": 130, "width": 80, "batch": 1},
        "width_128": {"queries": 66, "keys": 130, "width": 128, "batch": 1},
        "width_256": {"queries": 34, "keys": 130, "width": 256, "batch": 1},
    }
    return [
        *(_backward(f"gradient_sizes/{size}", f"{size} queries and keys", queries=size, keys=size, dtypes=_affordable(size)) for size in squares),
        *(_backward(f"gradient_sizes/causal_{size}", f"causal, {size} queries and keys", queries=size, keys=size, causal=True, dtypes=_affordable(size)) for size in (16, 63, 65, 129)),
        *(_backward(f"gradient_sizes/{name}", f"backward across tiles: {name.replace('_', ' ')}", **unusual) for name, unusual in met.items()),
    ]  # fmt: skip


def _backward(name: str, why: str, **unusual: Any) -> Case:
    """Gradients of several items and heads, wide enough for a tile; not in float64 unless it says so, for the time."""
    usual: dict[str, Any] = {
        "gradient_of": INPUTS,
        "heads": 3,
        "width": 16,
        "dtypes": ("float32", "float16", "bfloat16"),
    }
    return Case(name, why, **(usual | unusual))


def mask_gradient() -> list[Case]:
    """The gradient of a float mask flows, and is summed where it was broadcast."""
    return [
        Case("mask_gradient/full", "a bias for every score", gradient_of=WITH_MASK, mask=Mask("float", "everything")),
        Case("mask_gradient/with_hidden", "entries of −inf get none", gradient_of=WITH_MASK, mask=Mask("float")),
        Case("mask_gradient/square", "rows are queries, columns are keys", gradient_of=WITH_MASK, queries=7, mask=Mask("float", axes="ls")),
        Case("mask_gradient/alone", "nothing but the mask requires one", gradient_of=("attn_mask",), mask=Mask("float")),
        Case("mask_gradient/alone_broadcast", "nothing but a broadcast mask", gradient_of=("attn_mask",), mask=Mask("float", axes="ls")),
        *(
            Case(f"mask_gradient/axes_{axes}", "summed over the axes it was broadcast along", gradient_of=WITH_MASK, batch=3, mask=Mask("float", "everything", axes))
            for axes in ("ls", "1hls", "b1ls", "b11s", "bhl1", "hls", "s", "11l1")
        ),
        Case("mask_gradient/scaled", "not multiplied by the scale", gradient_of=WITH_MASK, scale=0.3, mask=Mask("float")),
        Case("mask_gradient/grouped", "one bias per query head", gradient_of=WITH_MASK, heads=4, key_heads=2, mask=Mask("float")),
        Case("mask_gradient/tiles", "across tiles", gradient_of=WITH_MASK, batch=1, heads=2, queries=70, keys=130, mask=Mask("float", axes="1hls"), dtypes=("float32", "float16", "bfloat16")),
        Case("mask_gradient/rank_2", "without leading axes", gradient_of=WITH_MASK, rank=2, batch=1, heads=1, mask=Mask("float", axes="ls")),
    ]  # fmt: skip


def empty_row_gradients() -> list[Case]:
    """An empty row gives zero, finite gradients and poisons nobody else's."""
    return [
        Case("empty_row_gradients/bool", "some empty rows", gradient_of=INPUTS, mask=Mask(pattern="empty_rows")),
        Case("empty_row_gradients/float", "some empty rows of −inf", gradient_of=INPUTS, mask=Mask("float", "empty_rows")),
        Case("empty_row_gradients/mask", "the mask's own gradient", gradient_of=WITH_MASK, mask=Mask("float", "empty_rows")),
        Case("empty_row_gradients/all_bool", "all rows empty", gradient_of=INPUTS, mask=Mask(pattern="nothing")),
        Case("empty_row_gradients/all_float", "all rows empty", gradient_of=INPUTS, mask=Mask("float", "nothing")),
        Case("empty_row_gradients/one", "one empty row of one head", gradient_of=INPUTS, mask=Mask(pattern="one_empty_row")),
        Case("empty_row_gradients/key_alone", "key alone", gradient_of=("key",), mask=Mask(pattern="empty_rows")),
        Case("empty_row_gradients/broadcast", "an empty padding", gradient_of=INPUTS, mask=Mask(pattern="nothing", axes="b11s")),
        Case("empty_row_gradients/tiles", "empty rows across tiles", gradient_of=INPUTS, heads=1, queries=9, keys=300, mask=Mask("float", "empty_rows")),
        Case("empty_row_gradients/grouped", "with grouped heads", gradient_of=INPUTS, heads=4, key_heads=2, mask=Mask(pattern="empty_rows")),
    ]  # fmt: skip


def _affordable(size: int) -> tuple[str, ...]:
    """float64 is judged in extended precision, which is slow: small sizes only."""
    small = ("float64",) if size <= 65 else ()
    return (*small, "float32", "float16", "bfloat16")
