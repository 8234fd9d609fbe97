"""Cases of the contract `varlen_attention`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases import Call, Case, covering
from attnsuite.cases.bad_input import BadInputCase, Row
from attnsuite.cases.contract import QUICK, CoveringArray, LocalMutant
from attnsuite.cases.covering import Contradiction, Space
from attnsuite.cases.tensors import FAST
from attnsuite.contracts.attention.cases.combined import DRAWN, MODES
from attnsuite.contracts.varlen_attention.contract import INPUTS
from attnsuite.contracts.varlen_attention.packed import PackedCase, SeveralCalls
from attnsuite.model import COMBINED, DTYPES

case = PackedCase
gradients = partial(PackedCase, gradient_of=INPUTS)
CAUSAL: Mapping[str, Any] = {"is_causal": True}
MANY = tuple(n * 7 % 5 for n in range(40))
"""Forty short items, every fifth of them empty."""


def _one_projection(call: Call) -> Call:
    """Query, key and value as views of one packed tensor t (h + g + g) e."""
    heads = [call.tensors[name].shape[1] for name in INPUTS]
    whole = torch.cat([call.tensors[name] for name in INPUTS], dim=1)
    views = dict(zip(INPUTS, whole.split(heads, dim=1), strict=True))
    return replace(call, tensors={**call.tensors, **views})


ITEMS: list[Case] = [
    case("items/all_empty", "no rows at all", (0, 0, 0)),
    case("items/all_empty_in_a_buffer", "rows that belong to no item", (0, 0), unused=(4, 6)),
    case("items/no_queries", "keys of an item that queries nothing", (4, 0, 3), (4, 6, 3)),
    case("items/no_keys", "queries of an item without keys get zeros", (4, 3, 5), (4, 0, 5)),
    case("items/no_keys_at_all", "every query gets zeros", (4, 3), (0, 0)),
    case("items/no_keys_first", "the first item has queries alone, the last keys alone", (3, 4, 0), (0, 4, 5)),
    case("items/one_query_each", "decoding: one query, all keys of its own item", (1, 1, 1, 1), (5, 1, 9, 3)),
    case("items/one_query_or_none", "decoding where some items have ended", (1, 0, 1, 1), (5, 4, 9, 3), max_seqlen=0),
    case("items/many", "forty short items", MANY),
]  # fmt: skip
"""Items without queries, without keys, or without both."""


LENGTHS: list[Case] = [
    *(case(f"sizes/edges_{n}", f"items of {n - 1}, {n} and {n + 1} tokens", (n - 1, n, n + 1), heads=1,
        dtypes=DTYPES if n < 64 else FAST) for n in (16, 128)),
    case("sizes/keys_at_edges", "key lengths at the edges of tiles, few queries", (3, 5, 2, 4), (127, 128, 129, 64)),
    case("sizes/queries_at_edges", "query lengths at the edges of tiles, few keys", (127, 128, 129), (3, 5, 2)),
    case("sizes/value_width", "values of another width", value_width=5),
    case("unused/garbage", "NaN behind the last item must not be read", unused=(3, 5)),
    gradients("unused/gradients", "garbage reaches no gradient", unused=(3, 5)),
    case("max_seqlen/larger", "larger than needed", max_seqlen=57),
    case("max_seqlen/causal", "larger than needed, under causal", (4, 9, 2), (9, 9, 6), max_seqlen=40, options=CAUSAL),
]  # fmt: skip
"""Lengths at the edges of tiles, uneven ones, and buffers that are longer than all items."""


MORE: dict[str, Any] = {"queries": (4, 6, 3), "keys": (9, 7, 12)}
FEWER: dict[str, Any] = {"queries": (9, 7, 12), "keys": (4, 6, 3)}
OPTIONS: list[Case] = [
    case("causal/square", "as many keys as queries", options=CAUSAL),
    case("causal/more_keys", "the last query of each item sees its last key", **MORE, options=CAUSAL),
    case("causal/one_query", "a lone query sees all keys", (1, 1, 1), (5, 1, 8), options=CAUSAL),
    case("causal/empty", "items without queries or keys", (5, 0, 3, 4), (5, 6, 0, 4), options=CAUSAL),
    case("causal/tiles", "across tiles", (64, 65, 130), heads=1, options=CAUSAL, dtypes=FAST),
    *(case(f"window/{name}", f"a window of {sides} in each item", (9, 14, 5), options={"window": sides})
        for name, sides in {"both": (2, 4), "unbounded_left": (None, 1), "own": (0, 0)}.items()),
    case("window/more_keys", "aligned at the last key of each item", **MORE, options={"window": (2, 1)}),
    case("window/fewer_keys", "queries whose window lies before the keys", **FEWER, options={"window": (2, 1)}),
    case("window/causal", "both hold", (9, 14, 5), options={"window": (3, 2), **CAUSAL}),
    case("window/tiles", "a window across tiles", (64, 130), heads=1, options={"window": (65, 0)}, dtypes=FAST),
    *(case(f"scale/{name}", f"a scale of {scale}", options={"scale": scale})
        for name, scale in {"given": 0.4, "zero": 0.0, "negative": -0.4}.items()),
    *(case(f"softcap/{name}", f"a soft cap {says} the scores", options={"softcap": cap})
        for name, cap, says in (("near", 1.5, "near"), ("below", 0.2, "far below"))),
    case("softcap/causal", "a cap of scaled scores, under causal", options={"softcap": 1.5, "scale": 0.2, **CAUSAL}),
    gradients("softcap/gradients", "the slope of the cap", options={"softcap": 1.5}),
    case("sinks/drawn", "each head has its own, in each item", sinks=True, heads=5),
    case("sinks/softcap", "a sink is not capped", sinks=True, options={"softcap": 0.7}),
    case("sinks/grouped", "a logit per query head, not per key head", sinks=True, heads=4, key_heads=2),
    *(case(f"sinks/gradients_{name}", f"summed over {says}", counts, sinks=True, gradient_of=(*INPUTS, "sinks"))
        for name, says, counts in (("usual", "items", (5, 7, 3)), ("empty", "items and an empty one", (5, 0, 3)))),
    case("heads/grouped", "query head i reads key head i // 2", heads=4, key_heads=2),
    case("heads/three_groups", "the group's size differs from the number of groups", heads=6, key_heads=3),
    case("heads/decoding", "one query each, grouped heads", (1, 0, 1, 1), (5, 4, 9, 3), heads=6, key_heads=2,
        max_seqlen=0),
    case("numerics/far_below_zero", "scores near −200", draw="opposite_logits"),
    case("numerics/huge", "scores of ±10⁴", draw="huge_logits", width=16),
]  # fmt: skip
"""Causal attention, windows, scales and grouped heads."""


BACKWARD: list[Case] = [
    gradients("gradients/plain", "all three at once"),
    gradients("gradients/empty", "items without queries or keys", (5, 0, 0, 3, 4), (5, 6, 0, 0, 4)),
    gradients("gradients/no_queries", "keys that no query reads get zeros", (0, 0), (3, 5)),
    gradients("gradients/no_keys", "queries without keys get zeros", (3, 5), (0, 0)),
    gradients("gradients/all_empty", "gradients of no rows", (0, 0, 0)),
    gradients("gradients/causal", "keys of the future get no gradient", (9, 4, 12), options=CAUSAL),
    gradients("gradients/causal_fewer_keys", "queries that see nothing", (9, 7), (4, 6), options=CAUSAL),
    gradients("gradients/window", "keys outside the window get no gradient", (9, 14), options={"window": (2, 1)}),
    gradients("gradients/grouped", "summed over the query heads of a group", heads=4, key_heads=2),
    gradients("gradients/edges_causal", "backward across tiles of causal items", (130, 33, 65), heads=1, width=16,
        options=CAUSAL, dtypes=FAST),
]  # fmt: skip
"""Gradients stay within their item."""


LAYOUTS: list[Case] = [
    case("layout/strided", "every second element", layout="strided"),
    gradients("layout/backward", "strides of the output gradient, too", layout="transposed_heads"),
    case("layout/one_projection", "query, key and value are views of one tensor", change=_one_projection),
    case("layout/one_grouped_projection", "the same with grouped heads", heads=4, key_heads=2, change=_one_projection),
]  # fmt: skip
"""Strides, offsets and views are honoured."""


USUAL, OTHER, THIRD = (PackedCase(f"again/{name}", "", (5, 0, 7, 3)) for name in ("first", "second", "third"))
AGAIN: list[Case] = [
    SeveralCalls("again/usual", "other numbers, and others yet in the same tensors", (USUAL, OTHER, THIRD), True),
    SeveralCalls("again/other_lengths", "other lengths, and others yet in the same tensors",
        (USUAL, replace(OTHER, queries=(7, 2, 1, 5)), replace(THIRD, queries=(1, 9, 0, 5))), True),
]  # fmt: skip
"""Several calls: other numbers, other lengths, other items."""


def _changed(**tensors: Callable[[Tensor], Tensor]) -> Mapping[str, Any]:
    """A case whose call has changed tensors."""

    def change(call: Call) -> Call:
        changed = {name: change(call.tensors[name]) for name, change in tensors.items()}
        return replace(call, tensors={**call.tensors, **changed})

    return {"change": change}


def _ends(*numbers: float, dtype: torch.dtype = torch.int32) -> Callable[[Tensor], Tensor]:
    return lambda _: torch.tensor(numbers, dtype=dtype)


def _four_heads(x: Tensor) -> Tensor:
    return torch.cat([x, x], dim=1)[:, :4]


BAD_INPUT: list[Row] = [
    ("starts_at_1", "query lengths that start at 1", _changed(cu_seqlens_q=_ends(1, 5, 12, 15))),
    ("keys_start_at_1", "key lengths that start at 1", _changed(cu_seqlens_k=_ends(1, 5, 12, 15))),
    ("decreasing", "query lengths that decrease", _changed(cu_seqlens_q=_ends(0, 12, 5, 15))),
    ("keys_decreasing", "key lengths that decrease", _changed(cu_seqlens_k=_ends(0, 12, 5, 15))),
    ("beyond", "17 queries of 15", _changed(cu_seqlens_q=_ends(0, 5, 12, 17))),
    ("keys_beyond", "17 keys of 15", _changed(cu_seqlens_k=_ends(0, 5, 12, 17))),
    ("other_items", "2 lengths of keys for 3 of queries", _changed(cu_seqlens_k=_ends(0, 5, 15))),
    ("float_lengths", "lengths that are not integers", _changed(cu_seqlens_q=_ends(0, 5, 12, 15, dtype=torch.float32))),
    ("heads_do_not_divide", "4 query heads on 3 key heads", {"heads": 3, **_changed(query=_four_heads)}),
    ("more_key_heads", "2 query heads on 4 key heads", _changed(key=_four_heads, value=_four_heads)),
    ("fewer_value_heads", "2 key heads and 1 value head", _changed(value=lambda x: x[:, :1])),
    ("more_keys_than_values", "15 keys and 14 values", _changed(value=lambda x: x[:-1])),
    ("widths_differ", "a query of width 8, keys of width 7", _changed(key=lambda x: x[..., :-1])),
    ("softcap", "a soft cap of −1", {"options": {"softcap": -1.0}}),
    ("sinks", "1 sink for 2 query heads", {"sinks": True, **_changed(sinks=lambda x: x[:1])}),
    ("max_seqlen", "a max_seqlen of 6, an item of 7", {"max_seqlen": -1}),
    ("negative_window", "a window of −1 keys", {"options": {"window": (-1, 0)}}),
]  # fmt: skip


def cases() -> list[Case]:
    """All cases, the plainest first."""
    return [
        case("plain/one_item", "a single item is one call of attention", (7,)),
        case("plain/three_items", "each query attends to its own item"),
        case("plain/equal_lengths", "as a batch without padding", (6, 6, 6)),
        *ITEMS,
        *LENGTHS,
        *OPTIONS,
        *BACKWARD,
        *LAYOUTS,
        *AGAIN,
        *array().cases(QUICK, 0),
        *(BadInputCase(case(f"bad_input/{what}", why, **unusual)) for what, why, unusual in BAD_INPUT),
    ]


# Cases that combine features: a covering array of their levels, in which every pair of levels meets.
# After a change of levels, `python -m attnsuite.conformance.drawing varlen_attention` draws a new array.

MOST_SCORES = {"float64": 2**15, "float32": 2**18, "float16": 2**18, "bfloat16": 2**18}
"""Most scores in a call, so that the oracle takes some ten milliseconds; for float64 it has extended precision."""
COUNTS = {
    "three_items": (5, 7, 3),
    "one_item": (9,),
    "single_tokens": (1,) * 9,
    "empty_first": (0, 6, 4),
    "empty_middle": (5, 0, 0, 6),
    "empty_last": (6, 4, 0),
    "tile_edges": (63, 64, 65),
    "long_edges": (127, 1, 129),
    "skewed": (2, 1, 150, 3),
    "many_items": tuple(n * 7 % 5 for n in range(35)),
}
KEYS: Mapping[str, Callable[[int, int], int]] = {
    "same_keys": lambda place, queries: queries,
    "more_keys": lambda place, queries: queries + 5,
    "fewer_keys": lambda place, queries: (queries + 1) // 2,
    "keys_of_every_second": lambda place, queries: (queries + 2) * (place % 2 == 0),
    "keys_alone_first": lambda place, queries: 4 if place == 0 else queries,
}
HEADS = {"two_heads": (2, 2), "one_head": (1, 1), "half_kv": (4, 2), "one_kv": (3, 1)}
WIDTHS = {f"e{width}": width for width in (8, 64, 72, 128)}
VALUE_WIDTHS: Mapping[str, Callable[[int], int]] = {
    "equal_v": lambda width: width,
    "wider_v": lambda width: width + 9,
    "narrower_v": lambda width: width // 2 + 1,
}
WINDOWS = {
    "no_window": None, "window_left": (3, 0), "window_both": (2, 4), "window_right": (None, 1),
    "long_window": (64, 64),
}  # fmt: skip
SCALES = {"default_scale": None, "small_scale": 0.05, "negative_scale": -0.3}
SOFTCAPS = {"no_softcap": None, "softcap": 1.5}
SINKS = {"no_sinks": False, "sinks": True}
MAX_SEQLENS = {"no_max": None, "exact_max": 0, "larger_max": 30}
UNUSED = {"no_unused": (0, 0), "unused_rows": (3, 70)}
DRAWS = ("peaked", "opposite_logits", "offset_values", "uneven_sizes")
GRADIENTS = {"no_gradient": (), **{f"d{name[0]}": (name,) for name in INPUTS}, "dqkv": INPUTS}
FACTORS: Mapping[str, Mapping[str, Any]] = {
    "lengths": COUNTS,
    "keys": KEYS,
    "heads": HEADS,
    "width": WIDTHS,
    "value_width": VALUE_WIDTHS,
    "causal": {"not_causal": False, "causal": True},
    "window": WINDOWS,
    "scale": SCALES,
    "softcap": SOFTCAPS,
    "sinks": SINKS,
    "max_seqlen": MAX_SEQLENS,
    "unused": UNUSED,
    "layout": {name: name for name in ("contiguous", "transposed_heads", "column_major", "sliced", "offset")},
    "draw": {draw: draw for draw in DRAWS},
    "gradient": GRADIENTS,
    "mode": MODES,
    "dtype": {dtype: dtype for dtype in DTYPES},
}
"""Each factor with its levels and their values; the usual level comes first."""
WANTED = tuple(GRADIENTS)[1:]


def _takes_long(lengths: str, keys: str, heads: str, dtype: str) -> bool:
    scores = sum(queries * KEYS[keys](place, queries) for place, queries in enumerate(COUNTS[lengths]))
    return HEADS[heads][0] * scores > MOST_SCORES[dtype]


SPACE = Space(
    {name: tuple(levels) for name, levels in FACTORS.items()},
    [
        *DRAWN.contradictions,
        Contradiction("its oracle would take long",
            {"lengths": COUNTS, "keys": KEYS, "heads": HEADS, "dtype": DTYPES}, _takes_long),
        Contradiction("in half types, gradients of values near 1,000 are what rounding leaves of them",
            {"gradient": WANTED, "draw": ("offset_values",), "dtype": ("float16", "bfloat16")}),
        Contradiction("there are gradients only in grad mode", {"gradient": WANTED, "mode": ("no_grad", "inference")}),
    ],
    [("lengths", "keys", "causal", "gradient")],
    [("gradient", "window", "softcap", "sinks")],
)  # fmt: skip


def combined_case(row: covering.Row) -> Case:
    """The case that combines these levels; its name says which are unusual."""
    values = {name: levels[row[name]] for name, levels in FACTORS.items()}
    heads, key_heads = values["heads"]
    options = {name: values[name] for name in ("window", "scale", "softcap")} | {"is_causal": values["causal"] or None}
    return PackedCase(
        f"{COMBINED}/{SPACE.write(row)}",
        "features meet",
        values["lengths"],
        tuple(values["keys"](place, queries) for place, queries in enumerate(values["lengths"])),
        heads=heads,
        key_heads=None if heads == key_heads else key_heads,
        width=values["width"],
        value_width=values["value_width"](values["width"]),
        unused=values["unused"],
        sinks=values["sinks"],
        max_seqlen=values["max_seqlen"],
        options={name: value for name, value in options.items() if value is not None},
        draw=values["draw"],
        layout=values["layout"],
        gradient_of=values["gradient"],
        dtypes=(values["dtype"],),
        **values["mode"],
    )


@cache
def array() -> CoveringArray:
    """The array of the contract."""
    return CoveringArray(SPACE, combined_case, local_mistakes, Path(__file__).parent)


def local_mistakes() -> list[LocalMutant]:
    """Mutants of the output, possible in all rows, and of gradients, possible where they are requested."""
    from attnsuite.contracts.varlen_attention.mutants import FORWARD, of_gradient

    wanted = {name: frozenset(level for level, names in GRADIENTS.items() if name in names) for name in INPUTS}
    return [*map(LocalMutant, FORWARD), *(LocalMutant(of_gradient(name), wanted[name]) for name in INPUTS)]
