"""What cases combine of masks: kinds, axes along which they broadcast, patterns and layouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnsuite.cases.covering import Contradiction
from attnsuite.contracts.attention.feature import Levels
from attnsuite.contracts.attention.features.mask.patterns import Mask

AXES = (
    "bhls",
    "b11s",
    "b1ls",
    "1hls",
    "bh1s",
    "1h1s",
    "11ls",
    "bhl1",
    "hls",
    "h1s",
    "1ls",
    "1l1",
    "ls",
    "1s",
    "l1",
    "s",
)
"""The axes that a mask has, 1 for a broadcast one."""
PATTERNS = {
    "random": {"pattern": "random"},
    "padding": {"pattern": "padding"},
    "late": {"pattern": "late"},
    "early": {"pattern": "early"},
    "lowest": {"pattern": "random", "hidden": "lowest"},
    "rows_of_1e9": {"pattern": "empty_rows", "hidden": -1e9},
}
"""Which keys are hidden. The last two are float masks that hide nothing, only lower the scores."""
LOWERED = ("lowest", "rows_of_1e9")
LAYOUTS = ("contiguous", "column_major", "strided", "sliced")


def _with(test: Any) -> tuple[str, ...]:
    return tuple(filter(test, AXES))


WITHOUT_ROWS = _with(lambda axes: "l" not in axes)
WITHOUT_COLUMNS = _with(lambda axes: "s" not in axes)
NOT_RANDOM = tuple(PATTERNS)[1:]


def _given(of: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"mask": Mask(of["mask"], axes=of["mask_axes"], **of["mask_pattern"])} if of["mask"] else {}


def _only_with_a_mask(name: str) -> tuple[Contradiction, Contradiction]:
    """Of a factor that says more about masks: its first level stands where there is none, the others where there is."""
    first, *others = FACTORS[name]
    return (
        Contradiction(f"a mask has its {name}", {"mask": ("bool_mask", "float_mask"), name: (first,)}),
        Contradiction(f"without a mask there is no {name}", {"mask": ("no_mask",), name: others}),
    )


FACTORS: Mapping[str, Mapping[str, Any]] = {
    "mask": {"no_mask": None, "bool_mask": "bool", "float_mask": "float"},
    "mask_axes": {"no_axes": "", **{axes: axes for axes in AXES}},
    "mask_pattern": {"no_pattern": {}, **PATTERNS},
    "attn_mask_layout": {"no_layout": "contiguous", **{f"mask_{layout}": layout for layout in LAYOUTS}},
}
LEVELS = Levels(
    FACTORS,
    _given,
    (
        *_only_with_a_mask("mask_axes"),
        *_only_with_a_mask("mask_pattern"),
        *_only_with_a_mask("attn_mask_layout"),
        Contradiction("only float masks lower scores", {"mask": ("bool_mask",), "mask_pattern": LOWERED}),
        Contradiction(
            "only in float64 have scores of −1e9 any digits left",
            {"mask_pattern": ("rows_of_1e9",), "dtype": ("float32", "float16", "bfloat16")},
        ),
        Contradiction("only float masks have gradients", {"mask": ("no_mask", "bool_mask"), "gradient": ("dqkv_mask",)}),
        Contradiction("a mask of rank 4 needs scores of rank 4", {"mask_axes": _with(lambda a: len(a) > 3), "rank": ("rank_3", "rank_2")}),
        Contradiction("a mask of rank 3 needs scores of rank 3", {"mask_axes": _with(lambda a: len(a) == 3), "rank": ("rank_2",)}),
        Contradiction("whole rows of −1e9 are rows of the mask", {"mask_pattern": ("rows_of_1e9",), "mask_axes": WITHOUT_ROWS}),
        Contradiction("keys are hidden by masks that have columns", {"mask_pattern": NOT_RANDOM, "mask_axes": WITHOUT_COLUMNS}),
        Contradiction(
            "a mask of one axis lies row by row or with strides",
            {"mask_axes": ("s",), "attn_mask_layout": ("mask_column_major", "mask_sliced")},
        ),
    ),
    lacked="masks",
)  # fmt: skip
