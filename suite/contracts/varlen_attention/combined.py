"""Cases that combine features: a covering array of their levels, in which every pair of levels meets.

After a change of levels, `python -m attnsuite.conformance.drawing varlen_attention` draws a new array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from attnsuite.cases import Case
from attnsuite.cases.contract import CoveringArray, LocalMutant
from attnsuite.cases.covering import Contradiction, Row, Space
from attnsuite.contracts.attention.cases.combined import DRAWN, MODES
from attnsuite.contracts.varlen_attention.contract import INPUTS
from attnsuite.contracts.varlen_attention.packed import PackedCase
from attnsuite.model import COMBINED, DTYPES

MOST_SCORES = {"float64": 2**15, "float32": 2**18, "float16": 2**18, "bfloat16": 2**18}
"""Most scores in a call, so that the oracle takes some ten milliseconds; for float64 it has extended precision."""
LENGTHS = {
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
LAYOUTS = ("contiguous", "transposed_heads", "column_major", "sliced", "offset")
DRAWS = ("peaked", "opposite_logits", "offset_values", "uneven_sizes")
GRADIENTS = {"no_gradient": (), **{f"d{name[0]}": (name,) for name in INPUTS}, "dqkv": INPUTS}
CAUSAL = {"not_causal": False, "causal": True}
FACTORS: Mapping[str, Mapping[str, Any]] = {
    "lengths": LENGTHS,
    "keys": KEYS,
    "heads": HEADS,
    "width": WIDTHS,
    "value_width": VALUE_WIDTHS,
    "causal": CAUSAL,
    "window": WINDOWS,
    "scale": SCALES,
    "softcap": SOFTCAPS,
    "sinks": SINKS,
    "max_seqlen": MAX_SEQLENS,
    "unused": UNUSED,
    "layout": {layout: layout for layout in LAYOUTS},
    "draw": {draw: draw for draw in DRAWS},
    "gradient": GRADIENTS,
    "mode": MODES,
    "dtype": {dtype: dtype for dtype in DTYPES},
}
"""Each factor with its levels and their values; the usual level comes first."""
WANTED = tuple(GRADIENTS)[1:]


def _takes_long(lengths: str, keys: str, heads: str, dtype: str) -> bool:
    scores = sum(queries * KEYS[keys](place, queries) for place, queries in enumerate(LENGTHS[lengths]))
    return HEADS[heads][0] * scores > MOST_SCORES[dtype]


SPACE = Space(
    {name: tuple(levels) for name, levels in FACTORS.items()},
    [
        *DRAWN.contradictions,
        Contradiction("its oracle would take long",
            {"lengths": LENGTHS, "keys": KEYS, "heads": HEADS, "dtype": DTYPES}, _takes_long),
        Contradiction("in half types, gradients of values near 1,000 are what rounding leaves of them",
            {"gradient": WANTED, "draw": ("offset_values",), "dtype": ("float16", "bfloat16")}),
        Contradiction("there are gradients only in grad mode", {"gradient": WANTED, "mode": ("no_grad", "inference")}),
    ],
    [("lengths", "keys", "causal", "gradient")],
    [("gradient", "window", "softcap", "sinks")],
)  # fmt: skip


def case(row: Row) -> Case:
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
    return CoveringArray(SPACE, case, local_mistakes, Path(__file__).parent)


def local_mistakes() -> list[LocalMutant]:
    """Mutants of the output, possible in all rows, and of gradients, possible where they are requested."""
    from attnsuite.contracts.varlen_attention.mutants import FORWARD, of_gradient

    wanted = {name: frozenset(level for level, names in GRADIENTS.items() if name in names) for name in INPUTS}
    return [*map(LocalMutant, FORWARD), *(LocalMutant(of_gradient(name), wanted[name]) for name in INPUTS)]
