"""Cases of paths that kernels choose by sizes: whole tiles, long axes, groups, widths, counts, threads, nothing to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from attnsuite.cases import Case
from attnsuite.cases.layouts import INPUTS, LayoutCase
from attnsuite.contracts.attention.cases.case import AttentionCase
from attnsuite.contracts.attention.cases.several_calls import CallSequence, in_turn
from attnsuite.contracts.attention.features.mask import Mask

case = partial(AttentionCase, batch=1, dtypes=("float32",))
WITH_MASK = (*INPUTS, "attn_mask")
MET: dict[str, dict[str, Any]] = {
    "masked": {"mask": Mask(axes="1hls")},
    "biased": {"mask": Mask("float", "everything", "ls")},
    "scaled": {"scale": 0.7},
    "grouped": {"heads": 4, "key_heads": 2},
    "other_values": {"value_width": 5},
}
"""Every path meets each of these features."""
BY_POSITION: dict[str, dict[str, Any]] = {"causal": {"causal": True}, "windowed": {"window": (20, 1)}}
LONG = (5000, 33_000)
"""Lengths beyond 12 and 15 bits, and beyond tables of 4,096 and 32,768 entries."""


def whole_tiles() -> Sequence[Case]:
    """Kernels take whole tiles without bounds checks, by code of its own."""
    tiles = partial(case, heads=1, queries=128, keys=256, width=16)
    return [
        *(tiles(f"tiles/{name}", f"whole tiles: {name}", gradient_of=WITH_MASK if name == "biased" else INPUTS,
            **({"heads": 1} | values)) for name, values in (MET | BY_POSITION).items()),
        tiles("tiles/dropout_1", "p = 1 beyond a tile", dropout_p=1.0),
    ]  # fmt: skip


def lengths() -> Sequence[Case]:
    """Each feature once where an axis is long; the others are short."""
    wide, tall = partial(case, heads=1, queries=2), partial(case, heads=1, keys=6)
    return [
        *(wide(f"lengths/{n}_keys_{name}", f"{n} keys: {name}", keys=n, **values)
            for n in LONG for name, values in MET.items()),
        *(tall(f"lengths/{n}_queries_{name}", f"{n} queries: {name}", queries=n, **values)
            for n in LONG for name, values in (MET | BY_POSITION).items() if name != "other_values"),
        *(wide(f"lengths/{n}_keys_gradient", f"{n} keys, backward", keys=n, gradient_of=INPUTS) for n in LONG),
        *(tall(f"lengths/{n}_queries_gradient", f"{n} queries, backward", queries=n, gradient_of=INPUTS) for n in LONG),
        wide("lengths/5000_keys_mask_gradient", "5,000 columns of a mask's gradient", keys=5000, gradient_of=WITH_MASK,
            mask=Mask("float", "everything", "ls")),
    ]  # fmt: skip


def groups() -> Sequence[Case]:
    """Ratios of query heads to key heads, which kernels unroll or pack: decoding, a mask per head, backward."""
    sizes = (3, 5, 6, 7, 12, 16)
    return [
        *(case(f"heads/decoding_groups_of_{n}", f"decoding, {n} query heads to a key head", heads=2 * n, key_heads=2,
            queries=1, keys=300) for n in sizes),
        *(case(f"gradients/groups_of_{n}", f"backward, {n} query heads to a key head", gradient_of=INPUTS, heads=2 * n,
            key_heads=2, queries=17, keys=33) for n in sizes),
        *(case(f"heads/{name}_groups_of_{n}", f"{name}, {n} query heads to a key head", heads=2 * n, key_heads=2,
            length=40, **values) for n in (3, 7) for name, values in (("masked", MET["masked"]),
            ("windowed", {"window": (9, 2)}))),
    ]  # fmt: skip


def widths() -> Sequence[Case]:
    """Widths between those that kernels are written for, and pairs of widths, beyond one tile."""
    beyond = partial(case, heads=1, queries=66, keys=130, gradient_of=INPUTS)
    return [
        *(beyond(f"gradient_sizes/width_{e}", f"width {e} across tiles", width=e, causal=causal)
            for e, causal in ((48, True), (112, False), (160, True), (224, False), (320, True), (40, False))),
        *(beyond(f"gradient_sizes/widths_{e}_{v}", f"width {e}, values of {v}, across tiles", width=e, value_width=v)
            for e, v in ((64, 32), (128, 64), (128, 96), (192, 128), (576, 512))),
    ]  # fmt: skip


def counts() -> Sequence[Case]:
    """More items, heads and matrices than kernels count at a time, with features; and more threads than cores."""
    grid = partial(case, batch=4100, heads=16, queries=1, keys=2, width=2)
    return [
        case("items/40_padded", "more than 32 items, each of its length", batch=40, heads=1,
            mask=Mask(axes="b11s", pattern="padding")),
        case("items/72_heads_biased", "more than 64 heads, a bias for each", heads=72, mask=Mask("float", axes="1hls")),
        case("items/72_heads_grouped", "more than 64 heads in groups", heads=72, key_heads=24),
        grid("items/beyond_the_grid_masked", "more than 65,535 matrices with a mask",
            mask=Mask(axes="b11s", pattern="padding")),
        grid("items/beyond_the_grid_grouped", "more than 65,535 matrices in groups", key_heads=8),
        grid("items/beyond_the_grid_gradient", "more than 65,535 matrices, backward", gradient_of=INPUTS),
        *(LayoutCase(case(f"threads/{name}_on_{count}", f"{count} threads: {name}", queries=131, keys=77,
            **({"heads": 1} | values)), partial(replace, threads=count)) for count in (4, 6, 8) for name, values in (("plain", {}),
            ("masked", MET["masked"]), ("causal", BY_POSITION["causal"]), ("grouped", MET["grouped"]))),
    ]  # fmt: skip


def nothing() -> Sequence[Case]:
    """No keys or no queries, with a feature."""
    empty = partial(case, batch=2, heads=4, queries=5, keys=0)
    return [
        empty("no_keys/dropout", "s = 0 with dropout", dropout_p=0.5),
        empty("no_keys/windowed", "s = 0 in a window", window=(2, 1)),
        empty("no_keys/causal", "s = 0 under causal", causal=True),
        empty("no_keys/grouped_gradient", "s = 0 with grouped heads, backward", key_heads=2, gradient_of=INPUTS),
        empty("no_keys/neither", "l = 0 and s = 0", queries=0),
        empty("no_keys/no_queries_grouped", "l = 0 with grouped heads", queries=0, keys=7, key_heads=2),
    ]  # fmt: skip


def precision() -> Sequence[Case]:
    """Scores beyond the numbers that kernels write for −∞, and beyond float16."""
    low: dict[str, Any] = {"draw": "bottomless_logits", "length": 9, "width": 16, "heads": 1}
    return [
        case("numerics/bottomless", "scores near −180,000, below the lowest number of float16", **low),
        case("numerics/bottomless_causal", "the same under causal: a hidden score of −10⁵ would win", causal=True,
            **low),
        case("numerics/bottomless_masked", "the same under a mask", mask=Mask(), **low),
        case("numerics/bias_beyond_float16", "a score of 10,000 and a bias of 60,000: their sum exceeds float16",
            draw="huge_equal_logits", dtypes=("float16",), mask=Mask("float", "nothing", hidden=60_000.0)),
    ]  # fmt: skip


FIRST: dict[str, dict[str, Any]] = {"": {}, "_causal": {"causal": True}, "_gradient": {"gradient_of": INPUTS}}
"""Features of calls that follow each other."""


def history() -> Sequence[Case]:
    """Kernels that specialise at the first call of a dtype and width; no other case has these widths."""
    base = case("", "", heads=2, queries=64, keys=64)
    ragged = (base.but(queries=71, keys=71), base.but(keys=7, queries=7))
    return [
        CallSequence(f"behaviour/{order}_first{name}", f"{order} call before others{name.replace('_', ': ')}",
            in_turn(*[one.but(name=f"{order}{name}_{number}", width=width, **values) for number, one in
            enumerate((base, *ragged) if order == "aligned" else (*ragged, base))]), ("float32", "float16"))
        for order, widths in (("aligned", (24, 56, 88)), ("ragged", (104, 120, 136)))
        for width, (name, values) in zip(widths, FIRST.items(), strict=True)
    ]  # fmt: skip


def types() -> Sequence[Case]:
    """Numbers as callers compute them."""
    bias = case("mask_gradient/parameter", "a learned bias is an nn.Parameter", mask=Mask("float", "everything"),
        gradient_of=(*INPUTS, "attn_mask"))  # fmt: skip
    return [case("scale/of_numpy", "1 / np.sqrt(e) is a numpy.float64, which is a float", scale=0.7 * np.float64(1.0)),
        LayoutCase(bias, lambda call: replace(call, parameters=("attn_mask",)))]  # fmt: skip


def cases() -> list[Case]:
    """All of them."""
    return [
        *whole_tiles(), *lengths(), *groups(), *widths(), *counts(), *nothing(), *precision(), *history(), *types(),
    ]  # fmt: skip
