"""Cases of dropout: small masks are read off the output exactly, large ones are judged by statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from attnsuite.cases import Call, Calls, Case, Conventions, Replies
from attnsuite.cases.expected import Form, WithinBounds
from attnsuite.cases.layouts import INPUTS, LayoutCase
from attnsuite.cases.random_cases import SEED, CountedCase, DropoutCase, DropoutReader
from attnsuite.cases.tensors import FAST, Array, dtype_of
from attnsuite.contracts.attention.cases.bad_input import BadInput, of_rank
from attnsuite.contracts.attention.cases.case import (
    AttentionCase,
    case,
    expected_result,
    form,
    gradients,
    oracle_result,
)
from attnsuite.contracts.attention.cases.several_calls import forward_of, interleave
from attnsuite.contracts.attention.feature import Grid, visible
from attnsuite.contracts.attention.features.mask import Mask
from attnsuite.judging import patterns
from attnsuite.judging.patterns import Judge, Seeds, neighbours, repeated
from attnsuite.judging.precision import PRECISIONS
from attnsuite.judging.shares import Statistic

SURELY_NOT_ZERO = 2.0**10
"""As many times the smallest number of a dtype: a weight above that is not rounded to zero, though its score may be off
by as much as 6 where scores are rounded to a half type."""
BITS = 4
"""As many keys are read off one column of coded values: numbers up to 15 survive the rounding of every half type."""


class KeptWeights(DropoutReader):
    """Reads the kept weights off an output for identity values, which is the weights after dropout."""

    def form(self, call: Call) -> Form:
        return form(call)

    def kept(self, call: Call, output: Array) -> Array:
        kept: Array = output != 0
        return kept

    def possible(self, call: Call, kept: Array) -> Array:
        """True for visible keys. Under causal there are as many queries as keys, so that no convention matters."""
        masks = {name: tensor for name, tensor in call.tensors.items() if name not in INPUTS}
        queries, keys = (call.tensors[name].shape[-2] for name in ("query", "key"))
        grid = Grid(torch.arange(queries), torch.arange(keys), queries, keys)
        seen = visible({**call.options, **masks}, grid, {})
        return kept | True if seen is None else np.broadcast_to(np.asarray(seen), kept.shape)

    def certain(self, call: Call, kept: Array, conventions: Conventions) -> Array:
        """True for weights that no dtype rounds to zero."""
        weights = oracle_result(replace(call, gradient_of=()), conventions).weights
        return np.asarray(weights > SURELY_NOT_ZERO * PRECISIONS[dtype_of(call)].tiny).reshape(kept.shape)

    def expected(self, call: Call, kept: Array, conventions: Conventions) -> WithinBounds:
        return expected_result(call, conventions, kept)


def kept(name: str, why: str, base: AttentionCase, dtypes: tuple[str, ...] = FAST) -> DropoutCase:
    """A case over identity values, whose output shows which weights were kept."""
    return DropoutCase(base.but(name, why, dtypes=dtypes), KeptWeights())


def counted(
    name: str,
    why: str,
    judge: Judge,
    p: float = 0.3,
    seeds: Seeds = (SEED,),
    *,
    batch: int = 8,
    heads: int = 8,
    size: int = 20,
    queries: int | None = None,
    dtypes: tuple[str, ...] = ("float32",),
    **values: Any,
) -> CountedCase:
    """A case with many draws, judged by statistics of the patterns of kept weights."""
    base = AttentionCase(
        name, why, batch=batch, heads=heads, queries=queries or size, keys=size, width=size, draw="uniform_identity",
        dropout_p=p, dtypes=dtypes, **values,
    )  # fmt: skip
    return CountedCase(base, form, KeptWeights().count(judge, p, seeds), seeds)


class CodedValues(AttentionCase):
    """Equal weights over 1,024 keys, for which identity values would take gigabytes.

    A column of the values holds the powers of two 1, 2, 4, 8 for four keys, so that it shows as a number of four
    bits which of them were kept.
    """

    def call(self, dtype: str) -> Call:
        precision, lead = getattr(torch, dtype), (self.batch, self.heads)
        columns = self.keys // BITS
        codes = torch.eye(columns).repeat_interleave(BITS, 0) * (2.0 ** torch.arange(BITS)).repeat(columns)[:, None]
        query = torch.zeros(*lead, self.queries, columns, dtype=precision)
        key, value = (tensor.to(precision).expand(*lead, -1, -1) for tensor in (torch.zeros(self.keys, columns), codes))
        return Call({"query": query, "key": key, "value": value}, {"dropout_p": self.values["dropout_p"]}, seed=SEED)


class KeptOfCodedValues(KeptWeights):
    """Reads the kept weights off an output for coded values."""

    def kept(self, call: Call, output: Array) -> Array:
        weight = 1 / (call.tensors["key"].shape[-2] * (1 - float(call.options["dropout_p"] or 0)))
        codes = np.nan_to_num(output / weight).round().clip(0, 2**BITS - 1).astype(int)
        bits = codes[..., None] >> np.arange(BITS) & 1
        kept: Array = bits.reshape(*output.shape[:-1], -1) == 1
        return kept


def of_many(name: str, why: str, judge: Judge, p: float, dtypes: tuple[str, ...] = ("float32",)) -> CountedCase:
    """The draw over 1,024 keys in 32 heads."""
    base = CodedValues(name, why, batch=2, heads=32, queries=2, keys=1024, dropout_p=p, dtypes=dtypes)
    return CountedCase(base, form, KeptOfCodedValues().count(judge, p, (SEED,)))


class InterleavedPasses(DropoutCase):
    """Two draws of a case, whose backward passes run after both forward passes."""

    def __init__(self, name: str, why: str, base: AttentionCase) -> None:
        super().__init__(base.but(name, why), KeptWeights())

    def calls(self, dtype: str) -> Calls:
        (call,) = self.base.calls(dtype)
        return interleave((call, replace(call, seed=2)))


class TrainingSteps(CountedCase):
    """Calls with gradients in a row. Each must draw other weights.

    The backward pass of the first runs between those of the others, and must leave the random source as it is.
    """

    def __init__(self, base: AttentionCase, order: Callable[[Call], Calls]) -> None:
        seeds, p = (SEED, None, None), float(base.values["dropout_p"])
        super().__init__(base, form, KeptWeights().count(repeated, p, seeds), seeds)
        self.order = order

    def calls(self, dtype: str) -> Calls:
        (call,) = self.base.calls(dtype)
        return self.order(replace(call, seed=SEED))

    def counted(self, calls: Calls, replies: Replies) -> Sequence[Statistic]:
        """The statistics of the forward passes alone."""
        pairs = [pair for pair in zip(calls, replies, strict=True) if pair[0].backward_of is None]
        return super().counted(tuple(call for call, _ in pairs), tuple(reply for _, reply in pairs))


def one_by_one(call: Call) -> Calls:
    """Forward and backward, three times."""
    return (call, replace(call, seed=None), replace(call, seed=None))


def backward_between(call: Call) -> Calls:
    """Forward, forward, backward of the first, forward."""
    forward = forward_of(call)
    return (forward, replace(forward, seed=None), replace(call, backward_of=0), replace(call, seed=None))


KEPT = case("dropout/base", "", length=8, width=8, draw="identity_values", dropout_p=0.4)
"""The base of most cases: small, with identity values."""


def cases() -> Sequence[Case]:
    """p = 0 and p = 1 exactly, masks read back exactly, and the statistics of many draws."""
    base = KEPT
    tiled = base.but(batch=1, heads=1, queries=24, keys=140, width=140)
    return [
        case("dropout/zero", "p = 0 is exact", dropout_p=0.0),
        gradients("dropout/zero_gradient", "p = 0 is exact backwards too", dropout_p=0.0),
        case("dropout/one", "p = 1 gives zeros", dropout_p=1.0),
        gradients("dropout/one_gradient", "p = 1 gives zero gradients", dropout_p=1.0),
        kept("dropout/kept", "kept weights are multiplied by 1/(1 − p)", base),
        kept("dropout/kept_masked", "the same under a mask", base.but(mask=Mask())),
        kept("dropout/kept_grouped", "the same with grouped heads", base.but(heads=4, key_heads=2)),
        kept("dropout/kept_empty_rows", "the same with empty rows", base.but(mask=Mask(pattern="empty_rows"))),
        case("dropout/one_masked", "p = 1 gives zeros under a mask", dropout_p=1.0, mask=Mask()),
        case("dropout/one_value_width", "p = 1 gives zeros of the values' width", dropout_p=1.0, value_width=3),
        kept("dropout/kept_tiled", "across tiles", tiled),
        kept("dropout/gradient", "the backward pass uses the forward's mask", base.but(gradient_of=INPUTS)),
        kept("dropout/gradient_tiled", "the forward's mask across tiles", tiled.but(gradient_of=INPUTS)),
        *(counted(f"dropout/{name}_{p}", why, judge, p, batch=16, heads=16, size=40) for name, why, judge in (
            ("share", "as many are kept as should be", patterns.kept_share),
            ("variance_rows", "independent within a row", patterns.rows_vary),
            ("variance_columns", "independent within a column", patterns.columns_vary),
            ("independent", "heads, items, rows and keys draw for themselves", neighbours)) for p in (0.1, 0.5)),
        counted("dropout/far_apart", "no mask is used again in another tile", neighbours, 0.4, batch=2, heads=3,
            size=256, dtypes=("float32", "float16")),
        counted("dropout/seeds", "torch.manual_seed governs the draw", repeated, seeds=(3, 3, 4)),
        BadInput("bad_input/dropout_below_zero", "dropout_p = −0.1", {}, {"dropout_p": -0.1}),
        BadInput("bad_input/dropout_above_one", "dropout_p = 1.5", {}, {"dropout_p": 1.5}),
        *(BadInput(f"bad_input/dropout_below_zero_in_rank_{rank}", f"dropout_p = −0.1, in rank {rank}", of_rank(rank),
            {"dropout_p": -0.1}) for rank in (2, 3)),
        BadInput("bad_input/dropout_below_zero_masked", "dropout_p = −0.1, with a mask", {"attn_mask": (5, 7)},
            {"dropout_p": -0.1}),
        BadInput("bad_input/dropout_above_one_causal", "dropout_p = 1.5, under causal", {},
            {"dropout_p": 1.5, "is_causal": True}),
        counted("dropout/successive_calls", "the generator moves on", repeated, seeds=(3, None)),
        counted("dropout/successive_one_query", "a call with one query moves the generator on", repeated,
            seeds=(3, None), batch=16, queries=1, size=64),
        counted("dropout/rows_far_apart", "no rows repeat after 512", neighbours, 0.4, batch=1, heads=1, queries=1100,
            size=16),
        of_many("dropout/of_many", "32 heads and 1,024 keys draw for themselves", patterns.share_and_neighbours, 0.5),
        of_many("dropout/of_many_rarely", "p = 0.001 is neither 0 nor 1/256", patterns.everywhere, 0.001,
            ("float32", "bfloat16")),
        *meetings(),
        *training(),
    ]  # fmt: skip


def meetings() -> Sequence[Case]:
    """Dropout with hidden keys or shared heads: its share and independence over the visible keys."""
    met: dict[str, dict[str, Any]] = {
        "causal": {"causal": True},
        "windowed": {"window": (9, 4)},
        "masked": {"mask": Mask()},
        "biased": {"mask": Mask("float")},
        "padded": {"mask": Mask(axes="b11s", pattern="padding")},
        "grouped": {"key_heads": 2},
        "one_query": {"queries": 1, "batch": 16, "size": 64},
    }
    one_query = KEPT.but(queries=1, keys=16, width=16)
    return [
        *(counted(f"dropout/drawn_{name}", f"as many are kept, and each for itself: {name.replace('_', ' ')}",
            patterns.share_and_neighbours, 0.5, **{"size": 24} | unusual) for name, unusual in met.items()),
        kept("dropout/kept_one_query", "a single query", one_query),
        kept("dropout/gradient_one_query", "the same mask backwards for a single query",
            one_query.but(gradient_of=INPUTS)),
        kept("dropout/gradient_grouped", "the same mask backwards with grouped heads",
            KEPT.but(heads=4, key_heads=2, gradient_of=INPUTS)),
        LayoutCase(kept("dropout/kept_without_grad_mode", "under no_grad dropout drops as well", KEPT),
            lambda call: replace(call, grad_mode=False)),
    ]  # fmt: skip


def training() -> Sequence[Case]:
    """The generator moves on from call to call where gradients are wanted, and no backward pass turns it back."""
    learning = gradients(
        "", "", batch=4, heads=4, length=16, width=16, draw="uniform_identity", dropout_p=0.5, dtypes=("float32",)
    )
    successive, between = "dropout/successive_training", "dropout/backward_between"
    return [
        TrainingSteps(learning.but(successive, "each step of a training draws anew"), one_by_one),
        InterleavedPasses("order/dropout", "forward A, forward B, backward A, backward B: each drops what it dropped",
            KEPT.but(gradient_of=INPUTS)),
        TrainingSteps(learning.but(between, "a backward pass does not turn the generator back"), backward_between),
    ]  # fmt: skip
