"""Packed calls as cases. Each item is judged as one call of `attention`, by its oracle and bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import Call, Calls, Conventions, Reply
from attnsuite.cases.case import HOW, Traits
from attnsuite.cases.expected import Expected, Form, PerCallCase, WithinBounds
from attnsuite.cases.layouts import LAYOUTS
from attnsuite.cases.tensors import HALF, PRECISE, Array, as_tensor, dtype_of, generator
from attnsuite.contracts.attention.cases.case import expected_result
from attnsuite.contracts.attention.cases.draws import DRAWS, Sizes
from attnsuite.contracts.varlen_attention.contract import INPUTS, POSITIONAL, lengths
from attnsuite.judging import compare
from attnsuite.judging.precision import PRECISIONS, Bounded
from attnsuite.judging.verdicts import Verdict, closest
from attnsuite.model import DTYPES, Status

ROLES = {"query": "q", "output": "q", "key": "k", "value": "k"}
"""Whether a tensor has the rows of queries or of keys."""
Rows = Mapping[str, slice | int]
"""The rows of an item, or its place in a batch: of queries by `q`, of keys by `k`."""


@dataclass(frozen=True)
class Packed(Expected):
    """The expected results of all items, each with the rows that are its own, and what they have in common."""

    form: Form
    items: Mapping[int, tuple[Rows, WithinBounds]]
    """By the number of an item that has any rows: these, and its result with the heads in front of the rows."""
    sinks: Bounded | None = None
    """The gradient of the sinks, which is a sum over items; None where it is not requested."""

    @property
    def loose(self) -> bool:  # type: ignore[override]
        return any(item.loose for _, item in self.items.values())

    @property
    def numbers(self) -> Array:
        return self._joined(lambda item: item.numbers)

    @property
    def slack(self) -> Array:
        return self._joined(lambda item: item.slack)

    def _joined(self, part: Callable[[WithinBounds], Array]) -> Array:
        output = np.zeros(self.form.shape)
        for rows, item in self.items.values():
            output[rows["q"]] = part(item).swapaxes(0, 1)
        return output

    def compare_numbers(self, reply: Reply, name: str = "output") -> Verdict:
        """The first clear complaint about an item, else a marginal one, else the largest error of all."""
        largest, marginal = 0.0, None
        for number, (rows, expected) in self.items.items():
            verdict = expected.compare_numbers(_of_item(reply, rows), name)
            if verdict.status != Status.PASSED:
                verdict = replace(verdict, detail=f"item {number}, heads first: {verdict.detail}")
                if not verdict.marginal:
                    return verdict
                marginal = marginal or verdict
            largest = max(largest, verdict.error_ratio or 0.0)
        if self.sinks is not None and marginal is None:
            return closest([("gradient of sinks", _numbers(reply), self.sinks, 1.0)])
        return marginal or Verdict(Status.PASSED, "", largest)

    def equal(self, reply: Reply, theirs: Reply) -> bool:
        pairs = self.items.values()
        if self.sinks is not None:
            either = Bounded(_numbers(theirs), 2 * self.sinks.bound + 8 * self.form.unit * abs(_numbers(theirs)))
            if closest([("", _numbers(reply), either, 1.0)]).status != Status.PASSED:
                return False
        return all(expected.equal(_of_item(reply, rows), _of_item(theirs, rows)) for rows, expected in pairs)


def _numbers(reply: Reply) -> Array:
    """The gradient of the sinks."""
    gradient = reply.gradients["sinks"]
    assert gradient is not None, "the form has been checked"
    return compare.numbers(gradient)


def _of_item(reply: Reply, rows: Rows) -> Reply:
    """The rows of one item in a reply of the right form, heads first."""

    def part(name: str, tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else tensor[rows[ROLES[name]]].transpose(0, 1)

    gradients = {name: part(name, gradient) for name, gradient in reply.gradients.items() if name in INPUTS}
    return Reply(part("output", reply.output), gradients=gradients)


def item_calls(call: Call) -> Iterator[tuple[int, Rows, Call]]:
    """Each item with any rows as a call of `attention`, with its number and its rows."""
    ends = {role: call.tensors[f"cu_seqlens_{role}"].tolist() for role in "qk"}
    options = {name: value for name, value in call.options.items() if not name.startswith("max_seqlen")}
    grouped = call.tensors["query"].shape[1] != call.tensors["key"].shape[1]
    for number, counts in enumerate(lengths(call)):
        rows = {role: slice(*ends[role][number : number + 2]) for role in "qk"}
        if any(counts):
            upstream = call.output_gradient
            yield (
                number,
                rows,
                Call(
                    {
                        name: call.tensors[name][rows[ROLES[name]]].transpose(0, 1) if name in INPUTS else tensor
                        for name, tensor in call.tensors.items()
                        if not name.startswith("cu_seqlens")
                    },
                    options | ({"enable_gqa": True} if grouped else {}),
                    gradient_of=call.gradient_of,
                    output_gradient=None if upstream is None else upstream[rows["q"]].transpose(0, 1),
                ),
            )


def expected_items(call: Call, conventions: Conventions) -> Packed:
    """The expected result of a packed call."""
    query, value = call.tensors["query"], call.tensors["value"]
    form = Form(
        (*query.shape[:-1], value.shape[-1]),
        query.dtype,
        {name: tuple(call.tensors[name].shape) for name in call.gradient_of},
    )
    corner = conventions.get("causal", "lower_right")
    aligned = {"causal": corner, "window": corner}
    results = [(number, rows, expected_result(item, aligned)) for number, rows, item in item_calls(call)]
    items = {number: (rows, _without_sinks(result)) for number, rows, result in results}
    return Packed(form, items, _sum_of_sinks(call, [result for _, _, result in results]))


def _without_sinks(result: WithinBounds) -> WithinBounds:
    own = {name: gradient for name, gradient in result.gradients.items() if name in INPUTS}
    limits = {name: limit for name, limit in result.aggregate_limits.items() if name != "sinks"}
    form = replace(result.form, gradients={name: result.form.gradients[name] for name in own})
    return replace(result, form=form, gradients=own, aggregate_limits=limits)


def _sum_of_sinks(call: Call, results: Sequence[WithinBounds]) -> Bounded | None:
    """The gradient of the sinks: each item's may be rounded, and so is their sum, in any order."""
    if "sinks" not in call.gradient_of:
        return None
    precision, zeros = PRECISIONS[dtype_of(call)], np.zeros(len(call.tensors["sinks"]))
    parts = [result.gradients["sinks"] for result in results]
    value: Array = sum((part.value for part in parts), zeros)
    size: Array = sum((abs(part.value).astype(np.float64) + part.bound for part in parts), zeros)
    error: Array = sum((part.bound for part in parts), zeros) + len(parts) * precision.accumulator * size
    return Bounded(value, error + precision.unit * (abs(value).astype(np.float64) + error) + precision.tiny)


@dataclass(frozen=True)
class PackedCase(PerCallCase):
    """One packed call. Every field has a plain default, so a case states only what is unusual."""

    name: str
    why: str
    queries: tuple[int, ...] = (5, 7, 3)
    """The number of queries of each item."""
    keys: tuple[int, ...] | None = None
    """The number of keys of each item; None: as many as queries."""
    heads: int = 2
    key_heads: int | None = None
    width: int = 8
    value_width: int | None = None
    unused: tuple[int, int] = (0, 0)
    """The rows of queries and of keys behind the last item."""
    garbage: float = math.nan
    """The numbers in these rows."""
    max_seqlen: int | None = None
    """By how much max_seqlen_q and max_seqlen_k exceed the longest item; None: they are not passed."""
    options: Mapping[str, Any] = field(default_factory=dict)
    sinks: bool = False
    draw: str = "peaked"
    layout: str = "contiguous"
    gradient_of: tuple[str, ...] = ()
    grad_mode: bool = True
    inference: bool = False
    dtypes: tuple[str, ...] = DTYPES
    change: Callable[[Call], Call] = lambda call: call
    """What is changed in the call afterwards."""

    @property
    def counts_of_items(self) -> list[tuple[int, int]]:
        """The numbers of queries and keys of each item."""
        return list(zip(self.queries, self.queries if self.keys is None else self.keys, strict=True))

    def calls(self, dtype: str) -> Calls:
        return (self.call(dtype),)

    def call(self, dtype: str) -> Call:
        """Draw the numbers item by item, pack them, and lay them out."""
        random, counts = generator(self.name), self.counts_of_items
        key_heads, value_width = self.key_heads or self.heads, self.value_width or self.width
        drawn = [
            DRAWS[self.draw](random, Sizes(1, self.heads, key_heads, *count, self.width, value_width), dtype)
            for count in counts
        ]
        unused = dict(zip("qk", self.unused, strict=True))
        parts = dict(zip(INPUTS, zip(*drawn, strict=True), strict=True))
        tensors = {name: self._packed(parts[name], unused[ROLES[name]], dtype) for name in INPUTS}
        upstream = random.normal(size=(*tensors["query"].shape[:-1], value_width)) + 0.25
        for role, lengths_of_role in zip("qk", zip(*counts, strict=True), strict=True):
            tensors[f"cu_seqlens_{role}"] = torch.tensor([0, *accumulate(lengths_of_role)], dtype=torch.int32)
        if self.sinks:
            tensors["sinks"] = as_tensor(random.normal(size=self.heads) * 1.5 + 0.5, dtype)
        call = Call(
            tensors,
            {**self._max_seqlens(), **self.options},
            POSITIONAL,
            self.gradient_of,
            self._laid(as_tensor(upstream, dtype)) if self.gradient_of else None,
            grad_mode=self.grad_mode,
            inference=self.inference,
        )
        return self.change(call)

    def _packed(self, parts: Sequence[Array], unused: int, dtype: str) -> Tensor:
        """Items b h l x, one behind the other and then the unused rows, as t h x."""
        rows = np.concatenate([part[0].swapaxes(0, 1) for part in parts])
        return self._laid(as_tensor(np.concatenate([rows, np.full((unused, *rows.shape[1:]), self.garbage)]), dtype))

    def _laid(self, tensor: Tensor) -> Tensor:
        return LAYOUTS[self.layout](tensor)

    def _max_seqlens(self) -> Mapping[str, int]:
        if self.max_seqlen is None:
            return {}
        longest = (max(counts) for counts in zip(*self.counts_of_items, strict=True))
        return {f"max_seqlen_{role}": length + self.max_seqlen for role, length in zip("qk", longest, strict=True)}

    def expected(self, calls: Calls, conventions: Conventions) -> tuple[Expected, ...]:
        return tuple(expected_items(call, conventions) for call in calls)

    def traits(self, dtype: str) -> Traits:
        """Its lengths, options, layout and dtype in words."""
        return {
            "lengths": tuple(_of_lengths(self.counts_of_items)),
            "unused rows": ("unused rows",) if any(self.unused) else (),
            "max_seqlen": () if self.max_seqlen is None else ("max_seqlen",),
            "heads": ("grouped heads",) if self.key_heads else (),
            "sinks": ("sinks",) if self.sinks else (),
            "width": (f"a width of {self.width}",) if self.width != 8 else (),
            "draw": () if self.draw == "peaked" else (self.draw.replace("_", " "),),
            "layout": () if self.layout == "contiguous" else ("inputs that are not contiguous",),
            "dtype": (dtype, *(("a half type",) if dtype in HALF else ())),
            HOW: ("backward",) if self.gradient_of else (),
            **{name: (name,) for name in self.options},
        }


def _of_lengths(counts: Sequence[tuple[int, int]]) -> Iterator[str]:
    queries, keys = zip(*counts, strict=True)
    if len(counts) > 1:
        yield "several items"
    if 0 in queries:
        yield "items without queries"
    if any(count and not of_keys for count, of_keys in counts):
        yield "queries without keys"
    if queries != keys:
        yield "other numbers of keys than queries"
    if len(set(queries)) > 1:
        yield "items of different lengths"
    yield from (f"items of more than {limit} keys" for limit in (128, 64, 32, 16) if max(keys) > limit)


@dataclass(frozen=True)
class SeveralCalls(PerCallCase):
    """The calls of several cases, one after the other; with `in_place` the last is in the tensors of the one before."""

    name: str
    why: str
    parts: Sequence[PackedCase]
    in_place: bool = False
    dtypes: tuple[str, ...] = PRECISE

    def calls(self, dtype: str) -> Calls:
        calls = [part.call(dtype) for part in self.parts]
        return (*calls[:-1], replace(calls[-1], same_storage=self.in_place))

    def expected(self, calls: Calls, conventions: Conventions) -> tuple[Expected, ...]:
        return tuple(expected_items(call, conventions) for call in calls)
