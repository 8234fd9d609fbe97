"""Cases of a single call and of no single feature: the formula, sizes, extreme numbers, layouts, gradients."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from attnsuite.cases import Call, Case
from attnsuite.cases.layouts import INPUTS, LayoutCase
from attnsuite.cases.tensors import FAST, HALF
from attnsuite.contracts.attention.cases.case import AttentionCase, case, gradients, single
from attnsuite.model import DTYPES

precise = partial(AttentionCase, dtypes=DTYPES)
"""A case in float64, too, whose numbers or whose place in the core need that."""


def plain() -> list[AttentionCase]:
    """Neither mask nor option: the core, which every implementation must support."""
    case, single = precise, partial(precise, batch=1, heads=1)
    return [
        case("plain/small", "the definition, nothing else"),
        case("plain/self_attention", "as many queries as keys", length=9),
        single("plain/one_head", "a single head of a single item"),
        case("plain/many_items", "batch items and heads are not mixed up when their counts differ", batch=5, heads=3),
        case("plain/batch_equals_queries", "axes of equal size are not confused", batch=8, heads=8, length=8),
        case("plain/heads_equal_queries", "(b, s, h, e) read as (b, h, s, e) gives a right shape", heads=4, length=4),
        case("plain/repeated_queries", "equal queries have equal outputs", draw="repeated_queries"),
        case("plain/ordinary", "an ordinary layer: 4 heads of width 64", heads=4, length=64, width=64),
    ]  # fmt: skip


def small() -> list[AttentionCase]:
    """No keys: zeros. No queries, no items: an empty output. Rank 2, 3 and 4."""
    return [
        case("no_keys/plain", "s = 0 gives zeros", keys=0),
        case("no_keys/value_width", "s = 0: zeros of the values' width", keys=0, value_width=3),
        single("no_keys/rank_2", "s = 0 without leading axes", keys=0, rank=2),
        case("no_keys/gradient", "gradients of nothing are zeros", keys=0, gradient_of=("query", "key", "value")),
        case("no_keys/no_queries", "l = 0 gives an empty output", queries=0),
        single("ranks/two", "l e alone", rank=2),
        case("ranks/three", "h l e", rank=3, batch=1, heads=3),
        case("ranks/three_as_many_rows", "h equals l", rank=3, batch=1, heads=5, keys=5),
        single("ranks/two_long", "rank 2 across tiles", rank=2, queries=70, keys=140),
        case("ranks/three_value_width", "rank 3 with another value width", rank=3, batch=1, heads=3, value_width=2),
    ]  # fmt: skip


SMALL = (1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 127, 128, 129)
LARGE = (255, 256, 257, 511, 512, 513)
BOUNDARIES = (*SMALL, *LARGE)
"""Sizes at which some kernel changes its path, with their neighbours."""
LONG = (1023, 1024, 1025, 2048, 2049, 4096, 4097)
"""The same, for cases with one head, to limit time."""
WIDTHS = (1, 2, 3, 4, 8, 16, 20, 32, 64, 72, 80, 96, 128, 192, 256, 320, 512)
SCORES = 2**18
"""l·s stays near this, so that one case takes milliseconds."""


def sizes() -> list[AttentionCase]:
    """Sizes around each boundary: of keys, queries, both, widths, and batch items and heads.

    They are in two dtypes: sizes break kernels in every dtype alike.
    """
    square = (31, 64, 65, 127, 129, 257, 512)
    case = partial(AttentionCase, dtypes=("float32", "float16"))
    single = partial(case, batch=1, heads=1)
    return [
        *(case(f"keys/{n}", f"{n} keys", batch=1, queries=min(24, SCORES // n), keys=n) for n in BOUNDARIES),
        *(single(f"keys/{n}", f"{n} keys", queries=min(60, SCORES // n), keys=n, width=16) for n in LONG),
        *(case(f"queries/{n}", f"{n} queries", batch=1, queries=n, keys=24) for n in BOUNDARIES),
        *(single(f"queries/{n}", f"{n} queries", queries=n, keys=60, width=16) for n in LONG),
        *(single(f"both/{n}", f"{n} queries and keys", length=n, width=16) for n in square),
        *(case(f"both/width_{width}", f"width {width} across tiles", batch=1, queries=130, keys=140, width=width)
            for width in (20, 72, 96, 128, 256)),
        case("both/decode_long", "one query before many keys", heads=4, queries=1, keys=4097, width=16),
        case("both/decode_batch", "one query each for many items", batch=64, heads=8, queries=1, keys=65, width=16),
        *(case(f"widths/{width}", f"width {width}", width=width, queries=12, keys=20) for width in WIDTHS),
        *(case(f"widths/value_{v}_of_{e}", f"values of width {v}, queries of {e}", width=e, value_width=v, queries=9,
            keys=18) for e, v in ((8, 1), (8, 3), (8, 24), (64, 80), (80, 64), (128, 20), (1, 8), (256, 64), (64, 256),
            (16, 512))),
        case("items/many", "batch · heads is 1,024", batch=32, heads=32, queries=2, keys=3),
        case("items/many_across_tiles", "70 items of ordinary size", batch=70, heads=1, length=33),
        case("items/prime", "batch · heads has no small divisor", batch=17, heads=19, queries=3, keys=4),
        case("items/beyond_the_grid", "batch · heads exceeds 65,535, the limit of a grid axis", batch=4100, heads=16,
            queries=1, keys=2, width=2),
    ]  # fmt: skip


def lengths() -> list[AttentionCase]:
    """One axis is long, the others are as short as they can be; where both have to be long, there is one head."""
    one: dict[str, Any] = {"batch": 1, "heads": 1}
    long = {**one, "queries": 2101, "keys": 2110, "draw": "leaning_ahead", "width": 32}
    ahead = "positions of ten bits end below 2,049: each query leans to the first key that is hidden"
    tile = {**one, "queries": 261, "keys": 270, "draw": "leaning_ahead", "width": 32, "dtypes": HALF}
    return [
        single("lengths/70000_keys", "one query, and more keys than sixteen bits count", queries=1, keys=70_000),
        single("lengths/33000_queries", "more queries than fifteen bits count", queries=33_000, keys=3),
        case("lengths/130_heads", "more than 128 heads", batch=1, heads=130, queries=3, keys=5),
        case("lengths/causal", ahead, causal=True, dtypes=("float16",), **long),
        case("lengths/windowed", ahead, window=(None, 0), dtypes=("float16",), **long),
        case("lengths/causal_tile", "the same in bfloat16, whose eight bits end at 256", causal=True, **tile),
        case("lengths/windowed_tile", "the same of a window", window=(30, 0), **tile),
    ]  # fmt: skip


def extreme() -> list[AttentionCase]:
    """The result is known to the dtype's precision, however extreme the numbers on the way are.

    Of the family `half` no number is off by a rounding of its own, and all together by more than roundings come to.
    """
    case, single = precise, partial(precise, batch=1, heads=1)
    return [
        case("numerics/huge_logits", "logits of ±10⁴", draw="huge_logits", width=16),
        case("numerics/cancelling_products",
            "products near 1,000 cancel, and small ones decide: their sum is made in float32",
            draw="cancelling_products", width=16, keys=20),
        case("numerics/huge_equal_logits", "equal logits of 10⁴", draw="huge_equal_logits"),
        case("numerics/far_below_zero", "all logits near −200: the maximum must be subtracted", draw="opposite_logits"),
        case("numerics/scores_beyond_float16", "scores of ±10⁵: kept in float16 they would be infinite",
            draw="huge_logits", width=16, scale=4.0),
        case("numerics/uneven_sizes",
            "large queries, small keys: the score is their product, not a difference of squares", draw="uneven_sizes"),
        single("numerics/equal_logits_many", "every weight is 1/4,097", draw="equal_logits", keys=4097, queries=9),
        single("numerics/equal_constant_many", "rounding errors add up coherently", draw="equal_constant", keys=4097,
            queries=9),
        case("numerics/dominant_key_late", "the running maximum jumps in a late tile", draw="dominant_key", keys=700,
            queries=9),
        case("numerics/products_overflow", "|q| near 400: unscaled products exceed float16",
            draw="overflowing_products", width=64, scale=1e-5, dtypes=("float64", "float32", "float16")),
        case("numerics/large_values", "values near the largest number", draw="large_values"),
        case("numerics/large_values_many", "unnormalised sums of values overflow", draw="large_values", keys=300,
            heads=1),
        case("numerics/subnormal_values", "values next to the subnormal ones", draw="subnormal_values"),
        single("numerics/offset_values_many", "weights sum to one over 1,025 keys", draw="offset_values", keys=1025,
            queries=20),
        case("numerics/identity_values_many", "small weights and large ones", draw="identity_values", keys=64, width=64,
            queries=20),
        single("half/one_key_of_many", "1,024 keys of equal weight: each counts once", queries=64, keys=1024, width=16,
            value_width=128, draw="even_weights", dtypes=HALF),
        single("half/one_tile_of_four", "a hundredth of one tile's weight, half a hundredth of the scale", queries=64,
            keys=256, width=16, value_width=128, draw="even_weights", dtypes=HALF),
        single("half/late_edge", "the first hidden key of long rows", length=384, width=16, value_width=64,
            draw="even_weights", causal=True, dtypes=HALF),
        case("half/to_nearest", "numbers are rounded to the nearest, not towards zero", batch=1, heads=2, length=64,
            width=16, value_width=64, draw="even_weights_of_offset_values", dtypes=HALF),
        gradients("half/gradients", "gradients of 128 queries and 256 keys", batch=1, heads=1, queries=128, keys=256,
            width=16, value_width=64, draw="even_weights", dtypes=HALF),
    ]  # fmt: skip


STRANGE = {
    "transposed_heads": "(b, s, h, e) in memory",
    "column_major": "last axes exchanged in memory",
    "strided": "every second element",
    "sliced": "a slice of a larger tensor",
    "offset": "a view that starts at an odd place",
    "expanded": "stride 0 along batch and heads",
    "expanded_rows": "stride 0 along rows",
    "expanded_items": "stride 0 along items",
    "expanded_heads": "stride 0 along heads",
    "expanded_last": "stride 0 along the last axis",
    "time_major": "(s, b, h, e) in memory",
}
RARE = ("expanded_items", "expanded_heads", "expanded_last", "time_major")
"""Those that inputs have in one dtype: combined cases have them in all."""


def layout() -> list[AttentionCase]:
    """Strides, offsets and stride-0 expansions are honoured."""
    upstream = {**STRANGE, "expanded_everywhere": "stride 0 along every axis"}
    names = {"expanded_everywhere": "of_a_sum"}
    case = partial(AttentionCase, dtypes=("float32", "bfloat16"))
    gradients = partial(case, gradient_of=INPUTS)
    dtypes = {layout: ("float32",) if layout in RARE else ("float32", "bfloat16") for layout in upstream}
    return [
        *(case(f"layout/{name}_{layout}", f"{name}: {words}", queries=6, layout={name: layout}, dtypes=dtypes[layout])
            for name in INPUTS for layout, words in STRANGE.items()),
        *(gradients(f"layout/output_gradient_{names.get(layout, layout)}", f"output gradient: {words}", queries=6,
            layout={"output_gradient": layout}, dtypes=dtypes[layout]) for layout, words in upstream.items()),
        *(gradients(f"layout/all_{layout}", f"all inputs: {words}", queries=6, layout=dict.fromkeys(INPUTS, layout))
            for layout, words in STRANGE.items() if layout not in ("strided", *RARE)),
        *(case(f"layout/long_{name}_transposed", f"{name} transposed, across tiles", queries=130, keys=140,
            layout={name: "transposed_heads"}) for name in INPUTS),
        gradients("layout/long_output_gradient_sliced", "output gradient: a slice of a larger tensor, across tiles",
            queries=130, keys=20, layout={"output_gradient": "sliced"}),
    ]  # fmt: skip


def backward_passes() -> list[AttentionCase]:
    """Gradients agree with the oracle's, element by element."""
    return [
        gradients("gradients/plain", "all three at once"),
        *(case(f"gradients/{name}_alone", f"only {name} requires a gradient", gradient_of=(name,)) for name in INPUTS),
        case("gradients/query_and_key_alone", "no gradient of the value", gradient_of=("query", "key"), dtypes=("float32",)),
        gradients("gradients/value_width", "another value width", value_width=5),
        gradients("gradients/rank_2", "without leading axes", rank=2, batch=1, heads=1),
        gradients("gradients/rank_3", "with one leading axis", rank=3, batch=1, heads=3),
        gradients("gradients/one_key", "softmax over one key passes nothing to the scores", keys=1),
        gradients("gradients/one_query", "decoding", queries=1, keys=20),
        gradients("gradients/wide_values", "values wider than queries", width=4, value_width=12),
        single("gradients/coherent_queries", "1,025 equal terms add up without stagnating", gradient_of=("value",),
            queries=1025, keys=20, draw="equal_logits", layout={"output_gradient": "expanded_rows"}),
        gradients("gradients/wide", "width 80", width=80),
        gradients("gradients/tall_and_wide", "1,025 keys", batch=1, heads=1, queries=20, keys=1025),
        gradients("gradients/no_queries", "l = 0: the gradients of keys and values are zeros", queries=0),
        gradients("gradients/no_items", "a batch of 0 has gradients of its shapes", batch=0),
        gradients("gradients/many_queries", "1,025 queries", batch=1, heads=1, queries=1025, keys=20),
    ]  # fmt: skip


def gradient_numerics() -> list[Case]:
    """The backward pass is as stable as the forward one: it subtracts the same maximum, and sums as wide."""
    base = precise("gradient_numerics/plain", "", queries=6, keys=20, gradient_of=INPUTS)
    tiled = base.but(queries=70, keys=130, width=16, batch=1, dtypes=FAST)
    return [
        base.but("gradient_numerics/far_below_zero", "logits near −200: their maximum is subtracted backward too",
            draw="opposite_logits"),
        base.but("gradient_numerics/abysmal", "logits near −23,000", draw="abysmal_logits"),
        tiled.but("gradient_numerics/far_below_zero_tiled", "logits near −200 across tiles", draw="opposite_logits"),
        base.but("gradient_numerics/uneven_sizes", "large queries, small keys", draw="uneven_sizes"),
        LayoutCase(base.but("gradient_numerics/large_upstream",
            "values near 1,000 and output gradients near 100: products exceed float16, their differences do not",
            draw="offset_values", gradient_of=("query", "key")), _hundredfold),
        LayoutCase(tiled.but("gradient_numerics/large_upstream_tiled", "the same across tiles", draw="offset_values",
            gradient_of=("query", "key")), _hundredfold),
    ]  # fmt: skip


def _hundredfold(call: Call) -> Call:
    assert call.output_gradient is not None
    return replace(call, output_gradient=call.output_gradient * 128)  # a power of two, exact in every dtype


def gradient_sizes() -> list[AttentionCase]:
    """Tails of tiles, which a forward pass may get right and a backward pass wrong; and what meets there."""
    met = {"wide": (70, 130, 16), "tall": (130, 70, 16), "width_80": (66, 130, 80), "width_128": (66, 130, 128),
        "width_256": (34, 130, 256)}  # fmt: skip
    return [
        *(backward(f"gradient_sizes/{n}", f"{n} queries and keys", length=n, dtypes=affordable(n))
            for n in (2, 16, 17, 32, 33, 64, 65, 127, 128, 129, 257)),
        *(backward(f"gradient_sizes/{name}", f"backward across tiles: {name.replace('_', ' ')}", queries=l, keys=s,
            width=e, batch=1 if e > 16 else 2) for name, (l, s, e) in met.items()),
    ]  # fmt: skip


def backward(name: str, why: str, **unusual: Any) -> AttentionCase:
    """Gradients of several items and heads, wide enough for a tile."""
    usual: dict[str, Any] = {"gradient_of": INPUTS, "heads": 3, "width": 16}
    return AttentionCase(name, why, **(usual | unusual))


def affordable(size: int) -> tuple[str, ...]:
    """The dtypes of a backward pass of a size: fewer where it takes long."""
    return FAST if size <= 65 else ("float32", "bfloat16") if size <= 128 else ("float32",)


def cases() -> list[Case]:
    """All of them but the plain ones, which come first, and the long ones, which come late."""
    return [*small(), *sizes(), *extreme(), *layout(), *backward_passes(), *gradient_sizes(), *gradient_numerics()]
