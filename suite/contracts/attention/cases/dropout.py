"""Cases of dropout: p = 0 and p = 1 exactly, masks read back exactly, and the statistics of many draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from attnsuite.cases import Case
from attnsuite.cases.layouts import INPUTS, LayoutCase
from attnsuite.cases.random_cases import CountedCase
from attnsuite.cases.tensors import FAST
from attnsuite.contracts.attention.cases.bad_input import BadInput, of_rank
from attnsuite.contracts.attention.cases.case import AttentionCase
from attnsuite.contracts.attention.cases.dropped import (
    KEPT,
    Interleaved,
    Training,
    backward_between,
    counted,
    kept,
    of_many,
    one_by_one,
)
from attnsuite.contracts.attention.features.mask import Mask
from attnsuite.judging import patterns
from attnsuite.judging.patterns import (
    Judge,
    columns_vary,
    everywhere,
    neighbours,
    repeated,
    rows_vary,
    share_and_neighbours,
)


def cases() -> Sequence[Case]:
    """p = 0 and p = 1 exactly, masks read back exactly, and the statistics of many draws."""
    of = KEPT
    tiled = of.but(batch=1, heads=1, queries=24, keys=140, width=140)
    return [
        AttentionCase("dropout/zero", "p = 0 is exact", dropout_p=0.0),
        AttentionCase("dropout/zero_gradient", "p = 0 is exact backwards too", dropout_p=0.0, gradient_of=INPUTS),
        AttentionCase("dropout/one", "p = 1 gives zeros", dropout_p=1.0),
        AttentionCase("dropout/one_gradient", "p = 1 gives zero gradients", dropout_p=1.0, gradient_of=INPUTS),
        kept("dropout/kept", "kept weights are multiplied by 1/(1 − p)", of),
        kept("dropout/kept_masked", "the same under a mask", of.but(mask=Mask())),
        kept("dropout/kept_scaled", "the same with a scale", of.but(scale=0.7)),
        kept("dropout/kept_grouped", "the same with grouped heads", of.but(heads=4, key_heads=2)),
        kept("dropout/kept_biased", "the same with a float mask", of.but(mask=Mask("float"))),
        kept("dropout/kept_rank_3", "the same with one leading axis", of.but(rank=3, batch=1, heads=6)),
        kept("dropout/kept_empty_rows", "the same beside empty rows", of.but(mask=Mask(pattern="empty_rows"))),
        kept(
            "dropout/gradient_masked",
            "the same mask backwards under a mask",
            of.but(mask=Mask(), gradient_of=INPUTS),
        ),
        AttentionCase("dropout/one_masked", "p = 1 gives zeros under a mask", dropout_p=1.0, mask=Mask()),
        AttentionCase("dropout/one_value_width", "p = 1 gives zeros of the values' width", dropout_p=1.0, value_width=3),
        kept("dropout/kept_rarely_dropped", "1/(1 − p) far from 1/p", of.but(dropout_p=0.1)),
        kept("dropout/kept_mostly_dropped", "1/(1 − p) is 5", of.but(dropout_p=0.8)),
        kept("dropout/kept_tiled", "across tiles", tiled),
        kept("dropout/gradient", "the backward pass uses the forward's mask", of.but(gradient_of=INPUTS)),
        kept("dropout/gradient_query_alone", "the same with one input", of.but(gradient_of=("query",))),
        kept("dropout/gradient_tiled", "the forward's mask across tiles", tiled.but(gradient_of=INPUTS), FAST),
        *(_many(f"dropout/share_{p}", "as many are kept as should be", patterns.kept, p) for p in (0.1, 0.5)),
        *(_many(f"dropout/variance_rows_{p}", "independent within a row", rows_vary, p) for p in (0.1, 0.5)),
        *(_many(f"dropout/variance_columns_{p}", "independent within a column", columns_vary, p) for p in (0.1, 0.5)),
        *(_many(f"dropout/independent_{p}", "heads, items, rows and keys draw for themselves", neighbours, p) for p in (0.1, 0.5)),
        counted("dropout/far_apart", "no mask is used again in another tile", neighbours, 0.4, batch=2, heads=3, size=256, dtypes=("float32", "float16")),
        counted("dropout/seeds", "torch.manual_seed governs the draw", repeated, seeds=(3, 3, 4)),
        *bad_input(),
        counted("dropout/successive_calls", "the generator moves on", repeated, seeds=(3, None)),
        *meetings(),
        *at_scale(),
        *training(),
    ]  # fmt: skip


def meetings() -> Sequence[Case]:
    """Dropout beside what hides keys or shares heads: its share and independence, where attention is allowed."""
    met: dict[str, dict[str, Any]] = {
        "causal": {"causal": True},
        "windowed": {"window": (9, 4)},
        "masked": {"mask": Mask()},
        "biased": {"mask": Mask("float")},
        "padded": {"mask": Mask(axes="b11s", pattern="padding")},
        "grouped": {"key_heads": 2},
        "one_query": {"queries": 1, "batch": 16, "size": 64},
    }
    one = KEPT.but(queries=1, keys=16, width=16)
    return [
        *(counted(f"dropout/drawn_{name}", f"as many are kept, and each for itself: {name.replace('_', ' ')}", share_and_neighbours, 0.5, **{"size": 24} | unusual) for name, unusual in met.items()),
        kept("dropout/kept_one_query", "a single query", one),
        kept("dropout/gradient_one_query", "the same mask backwards for a single query", one.but(gradient_of=INPUTS)),
        kept("dropout/gradient_grouped", "the same mask backwards with grouped heads", KEPT.but(heads=4, key_heads=2, gradient_of=INPUTS)),
        LayoutCase(kept("dropout/kept_without_grad_mode", "under no_grad dropout drops as well", KEPT), lambda call: replace(call, grad_mode=False)),
    ]  # fmt: skip


def at_scale() -> Sequence[Case]:
    """Many heads and keys, where a generator's numbers may repeat, and a probability that eight bits cannot hold."""
    return [
        of_many("dropout/of_many", "32 heads and 1,024 keys draw for themselves", share_and_neighbours, 0.5),
        of_many(
            "dropout/of_many_rarely", "p = 0.001 is neither 0 nor 1/256", everywhere, 0.001, ("float32", "bfloat16")
        ),
    ]


def training() -> Sequence[Case]:
    """The generator moves on from call to call where gradients are wanted, and no backward pass turns it back."""
    learning = AttentionCase("", "", batch=4, heads=4, queries=16, keys=16, width=16, draw="uniform_identity", dropout_p=0.5, gradient_of=INPUTS, dtypes=("float32",))  # fmt: skip
    one, between = "dropout/successive_training", "dropout/backward_between"
    return [
        Training(learning.but(name=one, why="each step of a training draws anew"), one_by_one),
        Interleaved(
            "order/dropout",
            "forward A, forward B, backward A, backward B: each drops what it dropped",
            KEPT.but(gradient_of=INPUTS),
        ),
        Training(learning.but(name=between, why="a backward pass does not turn the generator back"), backward_between),
    ]


def _many(name: str, why: str, judge: Judge, p: float) -> CountedCase:
    return counted(name, why, judge, p, batch=16, heads=16, size=40)


def bad_input() -> Sequence[Case]:
    """Numbers outside [0, 1], which are no probabilities."""
    return [
        BadInput("bad_input/dropout_below_zero", "dropout_p = −0.1", {}, {"dropout_p": -0.1}),
        BadInput("bad_input/dropout_above_one", "dropout_p = 1.5", {}, {"dropout_p": 1.5}),
        *(BadInput(f"bad_input/dropout_below_zero_in_rank_{rank}", f"dropout_p = −0.1, in rank {rank}", of_rank(rank), {"dropout_p": -0.1}) for rank in (2, 3)),
        BadInput("bad_input/dropout_below_zero_masked", "dropout_p = −0.1, with a mask", {"attn_mask": (5, 7)}, {"dropout_p": -0.1}),
        BadInput("bad_input/dropout_above_one_causal", "dropout_p = 1.5, under causal", {}, {"dropout_p": 1.5, "is_causal": True}),
    ]  # fmt: skip
