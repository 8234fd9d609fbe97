"""How drawn masks of dropout are asked: read back exactly where they can be, counted where they must be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from attnsuite.cases import Call, Calls, Conventions, Replies
from attnsuite.cases.expected import Form, WithinBounds
from attnsuite.cases.layouts import INPUTS
from attnsuite.cases.random_cases import SEED, CountedCase, DropoutCase, DropoutReader
from attnsuite.cases.tensors import Array, dtype_of
from attnsuite.contracts.attention.cases.case import AttentionCase, answered, due, form
from attnsuite.contracts.attention.cases.order import forward_of, interleave
from attnsuite.contracts.attention.feature import Grid, visible
from attnsuite.judging.patterns import Judge, Seeds, repeated
from attnsuite.judging.precision import PRECISIONS
from attnsuite.judging.shares import Statistic
from attnsuite.model import DTYPES

SURELY_NOT_ZERO = 2.0**10
"""As many times the smallest number of a dtype: a weight above that is not rounded to zero, though its score may be off
by as much as 6 where scores are rounded to a half type."""
BITS = 4
"""As many keys are read off one column of coded values: numbers up to 15 survive the rounding of every half type."""


class DroppedByAttention(DropoutReader):
    """How the kept weights are read off: values are the identity, so the output is the weights after dropout."""

    def form(self, call: Call) -> Form:
        return form(call)

    def kept(self, call: Call, output: Array) -> Array:
        kept: Array = output != 0
        return kept

    def possible(self, call: Call, kept: Array) -> Array:
        """Where a query may attend. Under causal there are as many queries as keys, so that no convention matters."""
        masks = {name: tensor for name, tensor in call.tensors.items() if name not in INPUTS}
        seen = visible({**call.options, **masks}, _grid(call), {})
        return kept | True if seen is None else np.broadcast_to(np.asarray(seen), kept.shape)

    def certain(self, call: Call, kept: Array, conventions: Conventions) -> Array:
        """Where a query attends to a key with a weight that no dtype rounds to zero."""
        weights = answered(replace(call, gradient_of=()), conventions).weights
        return np.asarray(weights > SURELY_NOT_ZERO * PRECISIONS[dtype_of(call)].tiny).reshape(kept.shape)

    def due(self, call: Call, kept: Array, conventions: Conventions) -> WithinBounds:
        return due(call, conventions, kept)


def _grid(call: Call) -> Grid:
    queries, keys = (call.tensors[name].shape[-2] for name in ("query", "key"))
    return Grid(torch.arange(queries), torch.arange(keys), queries, keys)


def kept(name: str, why: str, of: AttentionCase, dtypes: tuple[str, ...] = DTYPES) -> DropoutCase:
    """A case over identity values, whose output shows which weights were kept."""
    return DropoutCase(of.but(name=name, why=why, dtypes=dtypes), DroppedByAttention())


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
    """Many draws at once, judged by what is counted in the patterns of kept weights."""
    of = AttentionCase(
        name, why, batch=batch, heads=heads, queries=queries or size, keys=size, width=size, draw="uniform_identity",
        dropout_p=p, dtypes=dtypes, **values,
    )  # fmt: skip
    return CountedCase(of, form, DroppedByAttention().count(judge, p, seeds), seeds)


class Coded(AttentionCase):
    """Equal weights over so many keys that identity values would take gigabytes.

    A column of the values holds the powers of two 1, 2, 4, 8 for four keys, so that it shows as a number of four
    bits which of them were kept.
    """

    def call(self, dtype: str) -> Call:
        precision, lead = getattr(torch, dtype), (self.batch, self.heads)
        columns = self.keys // BITS
        codes = torch.eye(columns).repeat_interleave(BITS, 0) * (2.0 ** torch.arange(BITS)).repeat(columns)[:, None]
        query = torch.zeros(*lead, self.queries, columns, dtype=precision)
        key, value = (each.to(precision).expand(*lead, -1, -1) for each in (torch.zeros(self.keys, columns), codes))
        return Call({"query": query, "key": key, "value": value}, {"dropout_p": self.values["dropout_p"]}, seed=SEED)


class DroppedOfMany(DroppedByAttention):
    """How the kept weights are read off coded values."""

    def kept(self, call: Call, output: Array) -> Array:
        weight = 1 / (call.tensors["key"].shape[-2] * (1 - float(call.options["dropout_p"] or 0)))
        codes = np.nan_to_num(output / weight).round().clip(0, 2**BITS - 1).astype(int)
        bits = codes[..., None] >> np.arange(BITS) & 1
        kept: Array = bits.reshape(*output.shape[:-1], -1) == 1
        return kept


def of_many(name: str, why: str, judge: Judge, p: float, dtypes: tuple[str, ...] = ("float32",)) -> CountedCase:
    """The draw over 1,024 keys in 32 heads."""
    of = Coded(name, why, batch=2, heads=32, queries=2, keys=1024, dropout_p=p, dtypes=dtypes)
    return CountedCase(of, form, DroppedOfMany().count(judge, p, (SEED,)))


class Interleaved(DropoutCase):
    """Two draws of a case, whose backward passes run after both forward passes."""

    def __init__(self, name: str, why: str, of: AttentionCase) -> None:
        super().__init__(of.but(name=name, why=why), DroppedByAttention())

    def calls(self, dtype: str) -> Calls:
        (call,) = self.of.calls(dtype)
        return interleave((call, replace(call, seed=2)))


class Training(CountedCase):
    """Calls with gradients, one after the other, none of which may drop what another does.

    The backward pass of the first runs between those of the others, and must leave the random source as it is.
    """

    def __init__(self, of: AttentionCase, order: Callable[[Call], Calls]) -> None:
        seeds, p = (SEED, None, None), float(of.values["dropout_p"])
        super().__init__(of, form, DroppedByAttention().count(repeated, p, seeds), seeds)
        self.order = order

    def calls(self, dtype: str) -> Calls:
        (call,) = self.of.calls(dtype)
        return self.order(replace(call, seed=SEED))

    def counted(self, calls: Calls, replies: Replies) -> Sequence[Statistic]:
        """Of the forward passes alone."""
        pairs = [pair for pair in zip(calls, replies, strict=True) if pair[0].backward_of is None]
        return super().counted(tuple(call for call, _ in pairs), tuple(reply for _, reply in pairs))


def one_by_one(call: Call) -> Calls:
    """Forward and backward, three times."""
    return (call, replace(call, seed=None), replace(call, seed=None))


def backward_between(call: Call) -> Calls:
    """Forward, forward, backward of the first, forward."""
    forward = forward_of(call)
    return (forward, replace(forward, seed=None), replace(call, backward_of=0), replace(call, seed=None))


KEPT = AttentionCase("dropout/base", "", queries=8, keys=8, width=8, draw="identity_values", dropout_p=0.4)
"""What most masks are read off: small, its values the identity."""
