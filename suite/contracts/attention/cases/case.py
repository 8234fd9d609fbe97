"""The usual question: one call, its output and gradients held against the oracle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from suite import asking
from suite.asking import Call, Conventions, Reply
from suite.asking.layouts import INPUTS
from suite.asking.question import generator, unfit
from suite.contracts.attention import feature, oracle
from suite.contracts.attention.cases.draws import DRAWS, Sizes
from suite.contracts.attention.cases.layouts import LAYOUTS
from suite.contracts.attention.feature import Drawing
from suite.contracts.attention.judging import ACCEPT_GRADIENT, ACCEPT_OUTPUT
from suite.judging import compare
from suite.judging.precision import PRECISIONS, Bounded, widest
from suite.judging.verdicts import Verdict, closest, unlike
from suite.records import DTYPES, Status

Array = np.ndarray[Any, Any]

JUDGED_ELEMENTS = 2**17
"""Of an answer with more scores than this, all heads together, sampled query rows are judged: more would take seconds."""
JUDGED_IN_EXTENDED_PRECISION = 2**14
"""The same where the truth is computed in extended precision, which takes eight times as long."""
SAMPLED_ROWS = 24
"""At least this many rows are judged, however many keys they have."""


class Case(asking.Case):
    """One attention to compute. Every field has a plain default, so a case states only what is unusual.

    `values` are what features are given, by what each calls its value: `causal=True`, `mask=Mask()`, `key_heads=2`.
    """

    def __init__(
        self,
        name: str,
        why: str,
        *,
        batch: int = 2,
        heads: int = 2,
        queries: int = 5,
        keys: int = 7,
        width: int = 8,
        value_width: int | None = None,
        rank: int = 4,
        gradient_of: tuple[str, ...] = (),
        draw: str = "peaked",
        layout: Mapping[str, str] | None = None,
        spelled_out: bool = False,
        dtypes: tuple[str, ...] = DTYPES,
        **values: Any,
    ) -> None:
        self.name, self.why, self.dtypes = name, why, dtypes
        self.batch, self.heads, self.queries, self.keys, self.width = batch, heads, queries, keys, width
        self.value_width, self.rank, self.gradient_of, self.draw = value_width, rank, gradient_of, draw
        self.layout = layout or {}
        self.spelled_out = spelled_out
        """Pass every option that torch's function has, those at their defaults too."""
        self.values = {key: value for key, value in values.items() if value is not None and value is not False}

    def but(self, **changes: Any) -> Case:
        """The same case with changes."""
        fields = {name: value for name, value in vars(self).items() if name != "values"}
        return Case(**(fields | self.values | changes))

    @property
    def sizes(self) -> Sizes:
        return Sizes(
            self.batch, self.heads, self.values.get("key_heads", self.heads),
            self.queries, self.keys, self.width, self.width if self.value_width is None else self.value_width,
        )  # fmt: skip

    def calls(self, dtype: str) -> tuple[Call, ...]:
        return (self.call(dtype),)

    def call(self, dtype: str) -> Call:
        """Draw the numbers, round them to the dtype, lay them out."""
        random, precision = generator(self.name), getattr(torch, dtype)
        drawn = dict(zip(INPUTS, DRAWS[self.draw](random, self.sizes, dtype), strict=True))
        tensors = {name: torch.from_numpy(np.asarray(array)).to(precision) for name, array in drawn.items()}
        shape = (*tensors["query"].shape[:-1], tensors["value"].shape[-1])
        upstream = torch.from_numpy(random.normal(size=shape) + 0.25).to(precision)
        given = feature.given(self.values, Drawing(random, self.sizes, precision))
        options = self.defaults | {name: value for name, value in given.items() if not isinstance(value, Tensor)}
        leading = (slice(None),) * 4 if self.rank == 4 else (0,) * (4 - self.rank)
        tensors = {name: tensor[leading] for name, tensor in tensors.items()}
        tensors |= {name: value for name, value in given.items() if isinstance(value, Tensor)}
        return Call(
            {name: self._laid(name, tensor) for name, tensor in tensors.items()},
            options,
            gradient_of=self.gradient_of,
            output_gradient=self._laid("output_gradient", upstream[leading]) if self.gradient_of else None,
            seed=1 if any(each.seeded and each.key in self.values for each in feature.features()) else None,
        )

    def _laid(self, name: str, tensor: Tensor) -> Tensor:
        return LAYOUTS[self.layout.get(name, "contiguous")](tensor)

    @property
    def defaults(self) -> dict[str, Any]:
        """The options to pass although they are at their defaults; tensors have none."""
        if not self.spelled_out:
            return {}
        known = [each for each in feature.arguments() if each.place is not None]
        return {each.name: each.default for each in known if each.name != "attn_mask"}

    def truth(self, calls: tuple[Call, ...], conventions: Conventions) -> Judged:
        return judged(calls[0], conventions)

    def verdict(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: Judged) -> Verdict:
        return hold(calls[0], replies[0], truth)

    def counts(self, truth: Judged) -> bool:
        return not truth.truth.loose

    def alike(
        self, calls: tuple[Call, ...], replies: tuple[Reply, ...], theirs: tuple[Reply, ...], truth: Judged
    ) -> bool:
        return same_answer(calls[0], replies[0], theirs[0], truth)


@dataclass(frozen=True)
class Judged:
    """The oracle's truth about a call, and the query rows it was computed for (all when None)."""

    truth: oracle.Truth
    rows: Array | None = None


def judged(
    call: Call, conventions: Conventions, kept: Array | None = None, all_rows: bool = False, weights: bool = False
) -> Judged:
    """Ask the oracle, on sampled query rows where the call is large. Its weights are kept only on request."""
    dtype = str(call.tensors["query"].dtype).removeprefix("torch.")
    asked = as_asked(call, conventions, kept)
    rows = None if all_rows or call.gradient_of else sampled_rows(asked, dtype)
    if rows is not None:
        asked = on_rows(asked, rows)
    truth = oracle.attention(asked, PRECISIONS[dtype], widest(dtype))
    return Judged(truth if weights else replace(truth, weights=np.empty(0)), rows)


def as_asked(call: Call, conventions: Conventions, kept: Array | None = None) -> oracle.Asked:
    """A call in the oracle's words: four axes, and arrays."""
    query, key, value = (_four_axes(compare.numbers(call.tensors[name])) for name in INPUTS)
    upstream = None if call.output_gradient is None else _four_axes(compare.numbers(call.output_gradient))
    masks = {name: _array(tensor) for name, tensor in call.tensors.items() if name not in INPUTS}
    return oracle.Asked(
        query,
        key,
        value,
        options={**call.options, **masks},
        conventions=conventions,
        kept=kept,
        output_gradient=upstream,
        gradient_of=call.gradient_of,
    )


def _array(tensor: Tensor) -> Array:
    return tensor.numpy() if tensor.dtype == torch.bool else compare.numbers(tensor)


def sampled_rows(asked: oracle.Asked, dtype: str) -> Array | None:
    """Rows to judge when all are too many: the first, the last, and as many evenly between as there is time for."""
    *lead, queries, _ = asked.query.shape
    per_row = int(np.prod(lead)) * asked.key.shape[-2]
    judged = JUDGED_ELEMENTS if widest(dtype) is np.float64 else JUDGED_IN_EXTENDED_PRECISION
    count = max(SAMPLED_ROWS, judged // max(per_row, 1))
    if queries <= count:
        return None
    edges = [0, 1, 2, queries - 3, queries - 2, queries - 1]
    return np.unique([*edges, *np.linspace(3, queries - 4, count - len(edges)).astype(int)])


def on_rows(asked: oracle.Asked, rows: Array) -> oracle.Asked:
    """The same question about some of its queries."""
    kept = asked.kept
    if kept is not None and kept.ndim > 1:
        kept = kept[..., rows, :]
    return replace(asked, query=asked.query[..., rows, :], kept=kept, rows=rows, queries=asked.query.shape[-2])


def hold(call: Call, reply: Reply, truth: Judged, name: str = "output") -> Verdict:
    """Hold one reply against the truth: first what it is, then its numbers, then its gradients."""
    if complaint := malformed(call, reply):
        return complaint
    assert reply.output is not None
    actual, due = compare.numbers(reply.output), truth.truth.output
    if truth.rows is not None:
        stray = int((~np.isfinite(actual)).sum())
        if stray and np.isfinite(due.value.astype(np.float64)).all():
            return Verdict(
                Status.WRONG, f"{name} holds {stray} numbers that are infinite or NaN", np.inf, output_wrong=True
            )
        actual = actual[..., truth.rows, :]
    pairs = [(name, actual, due, ACCEPT_OUTPUT)]
    for of, bounded in truth.truth.gradients.items():
        gradient = reply.gradients[of]
        assert gradient is not None
        pairs.append((f"gradient of {of}", compare.numbers(gradient), bounded, ACCEPT_GRADIENT))
    return closest(pairs)


def pretend(call: Call, reply: Reply, truth: Judged) -> Judged | None:
    """The truth if this reply were right, its bounds widened by what both computations may have lost."""
    if malformed(call, reply) or reply.output is None:
        return None
    unit = PRECISIONS[str(reply.output.dtype)[6:]].unit
    values_size = float(np.nan_to_num(abs(compare.numbers(call.tensors["value"]))).max(initial=0.0))

    def bounded(tensor: Tensor, due: Bounded) -> Bounded:
        values = compare.numbers(tensor)
        if truth.rows is not None and tensor is reply.output:
            values = values[..., truth.rows, :]
        values = values.reshape(due.value.shape)
        rounding = (
            8 * unit * np.maximum(np.nan_to_num(abs(values)), values_size)
        )  # the due bound may be 0: an empty row
        return Bounded(values, np.nan_to_num(due.bound) + rounding)

    gradients = {
        name: bounded(gradient, truth.truth.gradients[name])
        for name, gradient in reply.gradients.items()
        if gradient is not None
    }
    output = bounded(reply.output, truth.truth.output)
    return Judged(replace(truth.truth, output=output, gradients=gradients), truth.rows)


def same_answer(call: Call, reply: Reply, theirs: Reply, truth: Judged) -> bool:
    """Whether two replies to one call are equal within the bounds."""
    pretended = pretend(call, theirs, truth)
    return pretended is not None and hold(call, reply, pretended).status == "passed"


def malformed(call: Call, reply: Reply) -> Verdict | None:
    """What is wrong with a reply before any number is read: errors, types, shapes, dtypes, changed or shared inputs."""
    query, value = call.tensors["query"], call.tensors["value"]
    if complaint := unfit(reply, (*query.shape[:-1], value.shape[-1]), query.dtype):
        return complaint
    for name in call.gradient_of:
        gradient = reply.gradients.get(name)
        if gradient is None:
            return Verdict(Status.WRONG, f"no gradient reached {name}")
        if wrong := unlike(f"gradient of {name}", gradient, tuple(call.tensors[name].shape), query.dtype):
            return Verdict(Status.WRONG, wrong)
    return None


def _four_axes(array: Array) -> Array:
    return array.reshape((1,) * (4 - array.ndim) + array.shape)
