"""A workload of attention, and the comparison of its results with the oracle."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from attnsuite import cases as base
from attnsuite.cases import Call, Conventions
from attnsuite.cases.tensors import generator, grown, moved
from attnsuite.contracts.attention import feature, oracle
from attnsuite.contracts.attention.cases.draws import Sizes
from attnsuite.contracts.attention.feature import DrawContext, Feature, Grid
from attnsuite.contracts.attention.tolerance import ACCEPT_GRADIENT, ACCEPT_OUTPUT
from attnsuite.judging import compare
from attnsuite.judging.precision import PRECISIONS, Bounded, widest
from attnsuite.judging.verdicts import Verdict, closest, unlike
from attnsuite.model import Status

if TYPE_CHECKING:
    from torch import Tensor


GRADIENTS = ("query", "key", "value")
BACKWARD_FLOPS = 2.5
"""A backward computes five matrix products where a forward computes two (FlashAttention's convention)."""
PAIRS, ROWS = 4, 32
"""The most pairs of batch item and head that are verified, and the most rows of all of them."""
PEAK = 3.0
"""Spread of the scores. At 1 the weights are so even that the mean of the values passes in bfloat16 from 4k keys on."""
VERIFIED_SCORES, BLOCK = 2**26, 256
"""Gradients of keys and values need all scores of a key head. They are verified up to VERIFIED_SCORES scores, BLOCK
queries at a time."""


class Workload(base.Workload):
    """One attention to time. Axes: query b h l e, key b g s e, value b g s v.

    `values` are the values of features by their keys: `causal=True`, `key_heads=4`, `mask=Mask()`.
    """

    def __init__(
        self,
        name: str,
        why: str,
        queries: int,
        keys: int,
        width: int = 64,
        heads: int = 1,
        *,
        batch: int = 1,
        value_width: int | None = None,
        length: int | None = None,
        profiles: Mapping[str, tuple[str, ...]] | None = None,
        cores: Mapping[str, tuple[int, ...]] | None = None,
        dtypes: Mapping[str, tuple[str, ...]] | None = None,
        conventions: Conventions | None = None,
        **values: Any,
    ) -> None:
        self.name, self.why, self.queries, self.keys, self.width, self.heads = name, why, queries, keys, width, heads
        self.batch, self.length, self.values = batch, length or keys, values
        self.value_width = value_width or width
        self.profiles = profiles or {"standard": ("forward",), "full": ("forward",)}
        self.cores, self.conventions = cores or {}, conventions or {}
        self.dtypes = dtypes or {"cpu": ("float32",), "cuda": ("float16", "bfloat16")}

    def but(self, **changes: Any) -> Workload:
        """The same workload with changes."""
        fields = {name: value for name, value in vars(self).items() if name != "values"}
        return type(self)(**(fields | self.values | changes))

    def under(self, conventions: Conventions) -> Workload:
        known = {point for known_feature in feature.features() for point in known_feature.conventions}
        declared = {point: chosen for point, chosen in conventions.items() if point in known}
        return self if declared == self.conventions else self.but(conventions=declared)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def groups(self) -> int:
        """Query heads per key head."""
        return self.heads // self.key_heads

    @property
    def key_heads(self) -> int:
        key_heads: int = self.values.get("key_heads") or self.heads
        return key_heads

    @property
    def sizes(self) -> Sizes:
        return Sizes(self.batch, self.heads, self.key_heads, self.queries, self.keys, self.width, self.value_width)

    @property
    def features(self) -> list[tuple[Feature, Any]]:
        """The features that are on, each with its value."""
        pairs = [(item, self.values.get(item.key)) for item in feature.features()]
        return [(item, value) for item, value in pairs if value is not None and value is not False]

    @property
    def shape(self) -> str:
        heads = (
            f"{self.heads} head{'s' * (self.heads > 1)}"
            if self.groups == 1
            else f"{self.heads} heads on {self.key_heads}"
        )
        lengths = f"{self.keys}" if self.queries == self.keys else f"{self.queries} × {self.keys}"
        values = f", values {self.value_width} wide" if self.value_width != self.width else ""
        words = [f"batch {self.batch}", heads, f"length {lengths}", f"width {self.width}{values}"]
        return ", ".join(filter(None, [*words, *(feature.label(value) for feature, value in self.features)]))

    def call(self, dtype: str, direction: str = "forward", *, device: str = "cpu") -> Call:
        sizes = {
            "query": (self.batch, self.heads, self.queries, self.width),
            "key": (self.batch, self.key_heads, self.keys, self.width),
            "value": (self.batch, self.key_heads, self.keys, self.value_width),
        }
        backward = direction != "forward"
        if backward:
            sizes["output"] = (self.batch, self.heads, self.queries, self.value_width)
        tensors = drawn(self.name, sizes, dtype, device)
        upstream = tensors.pop("output", None)
        arguments = self._arguments(dtype, device)
        tensors |= {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}
        options = {name: value for name, value in arguments.items() if name not in tensors}
        call = Call(tensors, options, gradient_of=GRADIENTS if backward else (), output_gradient=upstream)
        return feature.adapted(call, self.conventions)

    def _arguments(self, dtype: str, device: str) -> dict[str, Any]:
        """The features' arguments."""
        random = None if device == "meta" else generator(self.name)
        return feature.draw_arguments(self.values, DrawContext(random, self.sizes, getattr(torch, dtype)))

    def tensors_of_round(self, call: Call, number: int) -> Mapping[str, Tensor]:
        inputs = {name: moved(call.tensors[name], number, place) for place, name in enumerate(GRADIENTS)}
        return {**inputs, "query": grown(inputs["query"], number)}

    def work(self, dtype: str, direction: str) -> Mapping[str, float]:
        times = {"forward": 1.0, "backward": BACKWARD_FLOPS, "forward_backward": 1 + BACKWARD_FLOPS}[direction]
        counted = math.prod(feature.flash_share for feature, _ in self.features)
        pair = 2.0 * (self.width + self.value_width)  # of a query and a key: its score, and its value
        dense = pair * self.batch * self.heads * self.queries * self.keys
        rows = (
            self.heads * self.queries + self.key_heads * self.keys
        )  # of query and key, and as many of output and value
        once = getattr(torch, dtype).itemsize * self.batch * rows * (self.width + self.value_width)
        return {
            "attended": times * pair * _pairs(self),
            "convention": times * dense * counted,
            "bytes": float(once if direction == "forward" else 2 * once),  # and the gradient of each
        }

    def rows(self, direction: str, random: Random) -> Mapping[str, Sequence[int]]:
        pairs = random.sample(range(self.batch * self.heads), min(PAIRS, self.batch * self.heads))
        rows = [
            pair * self.queries + row
            for pair in pairs
            for row in {*random.sample(range(self.queries), min(ROWS // len(pairs), self.queries)), self.queries - 1}
        ]
        if direction == "forward":
            return {"output": rows}
        chosen: dict[str, Sequence[int]] = (
            {"query": rows} if direction == "backward" else {"output": rows, "query": rows}
        )
        if self.groups * self.queries * self.keys <= VERIFIED_SCORES:
            head = random.randrange(self.batch * self.key_heads)
            keys = [head * self.keys + row for row in random.sample(range(self.keys), min(ROWS, self.keys))]
            chosen |= {"key": keys, "value": keys}
        return chosen

    def verdict(
        self, dtype: str, direction: str, number: int, rows: Mapping[str, Sequence[int]], reply: Mapping[str, Tensor]
    ) -> Verdict:
        if absent := set(rows) - set(reply):
            return Verdict(Status.FAILED, f"{' and '.join(sorted(absent))} missing from the reply", np.inf)
        for name, places in rows.items():
            shape = (len(places), self.value_width if name in ("output", "value") else self.width)
            if complaint := unlike(f"rows of {name}", reply[name], shape, getattr(torch, dtype)):
                return Verdict(Status.FAILED, complaint, np.inf)
        call = _turned(self.under({}), dtype, direction, number)
        pairs = []
        drawn = rows.get("output", rows.get("query", ()))
        for pair in sorted({row // self.queries for row in drawn}):
            place = [at for at, row in enumerate(drawn) if row // self.queries == pair]
            inside = [drawn[at] % self.queries for at in place]
            expected_result = self._oracle_result(call, dtype, pair, inside, ("query",) if "query" in rows else ())
            where = f"[{', '.join(map(str, divmod(pair, self.heads)))}], {len(inside)} sampled rows"
            if "output" in rows:
                actual = compare.numbers(reply["output"][place])
                pairs.append((f"output{where}", actual, expected_result.output, ACCEPT_OUTPUT))
            if "query" in rows:
                actual = compare.numbers(reply["query"][place])
                pairs.append((f"gradient of query{where}", actual, expected_result.gradients["query"], ACCEPT_GRADIENT))
        for name in ("key", "value"):
            if name in rows:
                head = rows[name][0] // self.keys
                inside = [row % self.keys for row in rows[name]]
                gradient = _group_gradients(self, dtype, direction, number, head)[name]
                expected = Bounded(gradient.value[0, 0, inside], gradient.bound[0, 0, inside])
                where = f"[{', '.join(map(str, divmod(head, self.key_heads)))}]"
                pairs.append((f"gradient of {name}{where}", compare.numbers(reply[name]), expected, ACCEPT_GRADIENT))
        return closest(pairs)

    def _oracle_result(
        self, call: Call, dtype: str, pair: int, rows: Sequence[int], gradient_of: tuple[str, ...]
    ) -> oracle.OracleResult:
        """The oracle on some query rows of one batch item and head."""
        batch, head = divmod(pair, self.heads)

        def part(tensor: Tensor, *place: Any) -> oracle.Array:
            return compare.numbers(tensor[place])[None, None]

        query = part(call.tensors["query"], batch, head, rows)
        key, value = (part(call.tensors[name], batch, head // self.groups) for name in ("key", "value"))
        upstream = None if call.output_gradient is None else part(call.output_gradient, batch, head, rows)
        options = _options(call, batch, slice(head, head + 1))
        problem = oracle.Problem(query, key, value, options, rows=np.asarray(rows), output_gradient=upstream)
        return self._oracle(dtype, replace(problem, gradient_of=gradient_of))

    def _oracle(self, dtype: str, problem: oracle.Problem) -> oracle.OracleResult:
        """The oracle's result for some query rows of this workload."""
        problem = replace(problem, queries=self.queries, conventions=self.conventions)
        return oracle.attention(problem, PRECISIONS[dtype], widest(dtype))

    def group_gradients(self, call: Call, dtype: str, key_head: int) -> dict[str, Bounded]:
        """The oracle's gradients of key and value of one key head: sums over blocks of all queries that read it."""
        assert call.output_gradient is not None
        batch, head = divmod(key_head, self.key_heads)
        heads = slice(head * self.groups, (head + 1) * self.groups)
        query, upstream = (compare.numbers(t[batch, heads]) for t in (call.tensors["query"], call.output_gradient))
        key, value = (compare.numbers(call.tensors[name][batch, head])[None, None] for name in ("key", "value"))
        options, blocks = _options(call, batch, heads), []
        for start in range(0, self.queries, BLOCK):
            rows = np.arange(start, min(start + BLOCK, self.queries))
            problem = oracle.Problem(query[:, rows][None], key, value, options, rows=rows, gradient_of=("key", "value"))
            blocks.append(self._oracle(dtype, replace(problem, output_gradient=upstream[:, rows][None])).gradients)
        summing, gradients = PRECISIONS[dtype].accumulator * self.queries, {}
        for name in ("key", "value"):
            values, bounds = np.stack([b[name].value for b in blocks]), np.stack([b[name].bound for b in blocks])
            gradients[name] = Bounded(values.sum(0), bounds.sum(0) + summing * abs(values).sum(0).astype(np.float64))
        return gradients


def _options(call: Call, batch: int, heads: slice) -> dict[str, Any]:
    """The options of a call, masks as arrays of one item and of some heads."""

    def part(tensor: Tensor) -> oracle.Array:
        array = tensor.numpy() if tensor.dtype == torch.bool else compare.numbers(tensor)
        array = array.reshape((1,) * (4 - array.ndim) + array.shape)
        array = array[batch : batch + 1] if array.shape[0] > 1 else array
        return array[:, heads] if array.shape[1] > 1 else array

    masks = {name: part(tensor) for name, tensor in call.tensors.items() if name not in GRADIENTS}
    return {**call.options, **masks}


@lru_cache(maxsize=64)
def _pairs(workload: Workload) -> float:
    """The number of pairs of a query and a visible key, in all items and heads."""
    arguments = workload._arguments("float32", "cpu")
    options = {name: value.numpy() if isinstance(value, torch.Tensor) else value for name, value in arguments.items()}
    attended, every = 0.0, workload.batch * workload.heads
    for start in range(0, workload.queries, BLOCK):
        rows = range(start, min(start + BLOCK, workload.queries))
        pairs = every * len(rows) * workload.keys
        seen = feature.visible(options, Grid.make(workload.queries, workload.keys, rows), workload.conventions)
        attended += pairs if seen is None else int(seen.sum()) * (pairs / max(seen.size, 1))
    return attended


@lru_cache(maxsize=4)
def _group_gradients(workload: Workload, dtype: str, direction: str, number: int, key_head: int) -> dict[str, Bounded]:
    """The expected gradients of a round, which are the same for all implementations of a table."""
    return workload.group_gradients(_turned(workload.under({}), dtype, direction, number), dtype, key_head)


@lru_cache(maxsize=1)
def _turned(workload: Workload, dtype: str, direction: str, number: int) -> Call:
    """The call of a round under the contract's own conventions, shared by a table: drawing it takes a second."""
    call = _drawn_call(workload, dtype, direction)
    return replace(call, tensors={**call.tensors, **workload.tensors_of_round(call, number)})


@lru_cache(maxsize=1)
def _drawn_call(workload: Workload, dtype: str, direction: str) -> Call:
    """The call of round 0."""
    return workload.call(dtype, direction)


def drawn(name: str, sizes: Mapping[str, tuple[int, ...]], dtype: str, device: str) -> dict[str, Tensor]:
    """Tensors of these sizes, whose numbers depend on the workload's name; on `meta` without numbers.

    They are normal around a quarter, so that a lost mean of the values shows; queries spread by PEAK.
    """
    random, kind = torch.Generator().manual_seed(zlib.crc32(name.encode())), getattr(torch, dtype)
    if device == "meta":
        return {tensor: torch.empty(size, dtype=kind, device="meta") for tensor, size in sizes.items()}
    return {
        tensor: ((torch.randn(size, generator=random) + 0.25) * (PEAK if tensor == "query" else 1.0)).to(kind)
        for tensor, size in sizes.items()
    }
