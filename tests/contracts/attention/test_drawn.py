"""How the numbers of a case are drawn and laid out: layouts, masks, draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attnsuite.cases.layouts import BEHIND, JUNK, LAYOUTS
from attnsuite.cases.tensors import generator
from attnsuite.contracts.attention.cases import cases
from attnsuite.contracts.attention.cases.case import AttentionCase
from attnsuite.contracts.attention.cases.draws import DRAWS, Sizes
from attnsuite.contracts.attention.contract import needs
from attnsuite.contracts.attention.features.mask import PATTERNS, Mask
from attnsuite.judging.precision import PRECISIONS
from attnsuite.model import DTYPES

Array = np.ndarray[Any, Any]

EMPTYING = ("nothing", "empty_rows", "one_empty_row", "closed_rows")
"""The patterns that leave rows empty, and say so."""
SIZES = Sizes(batch=2, heads=4, key_heads=2, queries=6, keys=10, width=8, value_width=10)


@cache
def plain_cases() -> list[AttentionCase]:
    return [case for case in cases() if isinstance(case, AttentionCase)]


# Layouts


def alike(tensor: Tensor) -> Tensor:
    return tensor


STRIDES: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], bool]]] = {
    "contiguous": (alike, lambda t: t.is_contiguous() and t.storage_offset() == 0),
    "transposed_heads": (alike, lambda t: t.transpose(-2, -3).is_contiguous() and not t.is_contiguous()),
    "time_major": (alike, lambda t: t.movedim(-2, 0).is_contiguous() and not t.is_contiguous()),
    "column_major": (alike, lambda t: t.mT.is_contiguous() and t.stride(-1) > t.stride(-2) == 1),
    "strided": (alike, lambda t: t.stride(-1) == 2 and not t.is_contiguous()),
    "sliced": (
        alike,
        lambda t: (
            t.stride(-1) == 1
            and t.stride(-2) == t.shape[-1] + 5
            and t.stride(-3) == t.stride(-2) * (t.shape[-2] + 3)
            and t.storage_offset() > 0
        ),
    ),
    "offset": (alike, lambda t: t.is_contiguous() and t.storage_offset() == 3),
    "padded": (
        alike,
        lambda t: t.is_contiguous() and t.untyped_storage().nbytes() > 5 * t.numel() * t.element_size(),
    ),
    "expanded": (lambda t: t[:1, :1].repeat(*t.shape[:2], 1, 1), lambda t: t.stride()[:2] == (0, 0)),
    "expanded_items": (lambda t: t[:1].repeat(t.shape[0], 1, 1, 1), lambda t: t.stride() == (0, 20, 5, 1)),
    "expanded_heads": (lambda t: t[:, :1].repeat(1, t.shape[1], 1, 1), lambda t: t.stride() == (60, 0, 5, 1)),
    "expanded_last": (lambda t: t[..., :1].repeat(1, 1, 1, t.shape[-1]), lambda t: t.stride() == (60, 20, 5, 0)),
    "expanded_rows": (lambda t: t[..., :1, :].repeat(1, 1, t.shape[-2], 1), lambda t: t.stride(-2) == 0),
    "expanded_everywhere": (lambda t: t[:1, :1, :1, :1].repeat(t.shape), lambda t: set(t.stride()) == {0}),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bool])
def test_a_layout_has_the_strides_it_says_and_the_same_numbers(layout: str, dtype: torch.dtype) -> None:
    tensor = torch.from_numpy(np.random.default_rng(4).normal(size=(2, 3, 4, 5)) > 0)
    tensor = tensor if dtype == torch.bool else (tensor * 2 - 0.5).to(dtype)
    same, lies = STRIDES[layout]

    laid = LAYOUTS[layout](tensor)

    assert laid.shape == tensor.shape
    assert laid.dtype == dtype
    assert torch.equal(laid, same(tensor))
    assert lies(laid)


@pytest.mark.parametrize(
    ("layout", "junk"), [("strided", JUNK), ("padded", JUNK), ("sliced", BEHIND), ("offset", BEHIND)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
def test_what_lies_between_the_numbers_is_junk_that_shows(layout: str, junk: float, dtype: torch.dtype) -> None:
    laid = LAYOUTS[layout](torch.zeros(2, 3, 4, 5, dtype=dtype))

    storage = torch.as_strided(laid, (laid.untyped_storage().nbytes() // laid.element_size(),), (1,), 0)

    shows = storage if dtype == torch.bool else storage.isnan() if np.isnan(junk) else storage == junk
    assert int(shows.sum()) == storage.numel() - laid.numel() > 0


def test_cases_ask_every_layout_of_every_tensor() -> None:
    tested = {
        (name, layout) for case in plain_cases() for name, layout in case.layout.items() if case.family == "layout"
    }

    strange = set(LAYOUTS) - {"contiguous", "padded", "expanded_everywhere"}
    assert {(name, layout) for name in ("query", "key", "value", "attn_mask") for layout in strange} <= tested
    assert {("output_gradient", layout) for layout in {*strange, "expanded_everywhere"}} <= tested


# Masks


AXES = {"bhls": 4, "b1ls": 4, "1hls": 4, "b11s": 4, "bhl1": 4, "hls": 3, "ls": 2, "s": 1}


@pytest.mark.parametrize(
    ("pattern", "axes"),
    [
        (pattern, axes)
        for pattern in PATTERNS
        for axes in AXES
        if axes != "s"
        or pattern
        not in ("causal", "window", "single", "empty_rows", "one_empty_row", "closed_rows")  # those need rows
    ],
)
def test_only_patterns_that_say_so_leave_rows_empty(pattern: str, axes: str) -> None:
    for sizes in (SIZES, replace(SIZES, queries=10), replace(SIZES, keys=7), replace(SIZES, queries=1)):
        mask = Mask("bool", pattern, axes).draw(generator("masks"), sizes, torch.float32)

        assert mask.dim() == AXES[axes]
        assert bool((~mask.any(-1)).any()) == (pattern in EMPTYING)
        torch.broadcast_to(mask, (sizes.batch, sizes.heads, sizes.queries, sizes.keys))


def test_cases_have_empty_rows_exactly_where_their_pattern_says_so() -> None:
    for case in plain_cases():
        if set(case.values) & {"mask", "window"} == {"mask"} and case.keys:
            mask, calls = case.values["mask"], case.calls("float32")
            says_so = mask.pattern in EMPTYING and mask.hidden == -np.inf
            if case.values.get("causal"):  # hides keys that the mask alone leaves visible
                mask_tensor = calls[0].tensors["attn_mask"]
                seen = mask_tensor if mask_tensor.dtype == torch.bool else mask_tensor > -torch.inf
                seen = seen & torch.ones(case.queries, case.keys, dtype=torch.bool).tril()
                says_so = bool((~seen.any(-1)).any())
            assert ("empty_row" in needs(calls)) == says_so, case.name


# Draws


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_draw_fits_its_dtype_and_its_sizes(draw: str, dtype: str) -> None:
    query, key, value = DRAWS[draw](generator("draws"), SIZES, dtype)

    assert query.shape == (2, 4, 6, 8)
    assert key.shape == (2, 2, 10, 8)
    assert value.shape == (2, 2, 10, 10)
    for array in (query, key, value):
        assert abs(array).max() < torch.finfo(getattr(torch, dtype)).max
    assert abs(value).max() <= PRECISIONS[dtype].large
