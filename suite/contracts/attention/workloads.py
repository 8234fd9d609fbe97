"""What is timed: the documents' shapes, the FlashAttention grid, the memory ladder, a ViT's layer, and decoding."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import torch

from suite import asking
from suite.asking import ALL, Call
from suite.contracts.attention import oracle
from suite.contracts.attention.judging import ACCEPT_GRADIENT, ACCEPT_OUTPUT
from suite.judging import compare
from suite.judging.precision import PRECISIONS, Bounded, widest
from suite.judging.verdicts import Verdict, closest, unlike
from suite.records import DIRECTIONS

if TYPE_CHECKING:
    from torch import Tensor

GRADIENTS = ("query", "key", "value")
BACKWARD_FLOPS = 2.5
"""A backward computes five matrix products where a forward computes two (FlashAttention's convention)."""
PAIRS, ROWS = 4, 32
"""So many pairs of batch item and head are verified at most, on so many rows together."""
PEAK = 3.0
"""The spread of the scores. At 1 weights are so even that in bfloat16 the mean of the values passes for attention from 4k
keys on, and so does every second key alone."""
VERIFIED_SCORES, BLOCK = 2**26, 256
"""Gradients of keys and values need all scores of a key head: they are verified up to so many, so many queries at a
time."""

CPU, HALF = ("float32",), ("float16", "bfloat16")
FORWARD, TOGETHER = ("forward",), ("forward_backward",)
EVERY = {"quick": FORWARD, "standard": FORWARD, "full": FORWARD}


@dataclass(frozen=True)
class Workload(asking.Workload):
    """One attention to time. Axes: query b h l e, key b g s e, value b g s e."""

    name: str
    why: str
    queries: int
    keys: int
    width: int = 64
    heads: int = 1
    key_heads: int | None = None
    batch: int = 1
    causal: bool = False
    length: int = 0
    profiles: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"standard": FORWARD, "full": FORWARD})
    cores: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dtypes: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"cpu": CPU, "cuda": HALF})

    def __hash__(self) -> int:
        return hash(self.name)

    def __post_init__(self) -> None:
        if not self.length:
            object.__setattr__(self, "length", self.keys)

    @property
    def groups(self) -> int:
        """Query heads per key head."""
        return self.heads // (self.key_heads or self.heads)

    @property
    def shape(self) -> str:
        heads = (
            f"{self.heads} head{'s' * (self.heads > 1)}"
            if self.groups == 1
            else f"{self.heads} heads on {self.key_heads}"
        )
        lengths = f"{self.keys}" if self.queries == self.keys else f"{self.queries} × {self.keys}"
        return f"batch {self.batch}, {heads}, length {lengths}, width {self.width}" + ", causal" * self.causal

    def call(self, dtype: str, direction: str = "forward", *, device: str = "cpu") -> Call:
        sizes = {
            "query": (self.batch, self.heads, self.queries, self.width),
            "key": (self.batch, self.heads // self.groups, self.keys, self.width),
            "value": (self.batch, self.heads // self.groups, self.keys, self.width),
            "output": (self.batch, self.heads, self.queries, self.width),
        }
        random = None if device == "meta" else torch.Generator().manual_seed(zlib.crc32(self.name.encode()))
        backward = direction != "forward"
        tensors = {
            name: torch.empty(size, dtype=getattr(torch, dtype), device="meta")
            if random is None
            else _drawn(size, random, dtype, PEAK if name == "query" else 1.0)
            for name, size in sizes.items()
            if name != "output" or backward
        }
        upstream = tensors.pop("output", None)
        options: dict[str, float | bool | None] = {"is_causal": True} if self.causal else {}
        if self.groups > 1:
            options["enable_gqa"] = True
        return Call(tensors, options, gradient_of=GRADIENTS if backward else (), output_gradient=upstream)

    def turned(self, call: Call, number: int) -> Mapping[str, Tensor]:
        query = call.tensors["query"]
        grown = 1 + number % 32 / 256  # a query of twelve numbers would be the same again after twelve rounds
        found = {
            name: call.tensors[name].flatten().roll(number).view_as(call.tensors[name]) for name in ("key", "value")
        }
        return {"query": (query.flatten().roll(number) * grown).view_as(query), **found}

    def work(self, dtype: str, direction: str) -> Mapping[str, float]:
        times = {"forward": 1.0, "backward": BACKWARD_FLOPS, "forward_backward": 1 + BACKWARD_FLOPS}[direction]
        seen = np.minimum(np.arange(1, self.queries + 1), self.keys).sum() if self.causal else self.queries * self.keys
        dense = 4.0 * self.batch * self.heads * self.queries * self.keys * self.width
        width = getattr(torch, dtype).itemsize * self.width * self.batch
        queries, keys = self.heads * self.queries * width, self.heads // self.groups * self.keys * width
        once = 2 * queries + 2 * keys  # query, output, key, value
        return {
            "attended": times * 4.0 * self.batch * self.heads * float(seen) * self.width,
            "convention": times * (dense / 2 if self.causal else dense),
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
        found: dict[str, Sequence[int]] = (
            {"query": rows} if direction == "backward" else {"output": rows, "query": rows}
        )
        if self.groups * self.queries * self.keys <= VERIFIED_SCORES:
            head = random.randrange(self.batch * self.heads // self.groups)
            keys = [head * self.keys + row for row in random.sample(range(self.keys), min(ROWS, self.keys))]
            found |= {"key": keys, "value": keys}
        return found

    def verdict(
        self, dtype: str, direction: str, number: int, rows: Mapping[str, Sequence[int]], found: Mapping[str, Tensor]
    ) -> Verdict:
        if absent := set(rows) - set(found):
            return Verdict("wrong", f"no {' and no '.join(sorted(absent))} came back", np.inf)
        for name, places in rows.items():
            shape = (len(places), self.width)
            if complaint := unlike(f"rows of {name}", found[name], shape, getattr(torch, dtype)):
                return Verdict("wrong", complaint, np.inf)
        call = self.call(dtype, direction)
        call = replace(call, tensors={**call.tensors, **self.turned(call, number)})
        pairs = []
        drawn = rows.get("output", rows.get("query", ()))
        for pair in sorted({row // self.queries for row in drawn}):
            place = [at for at, row in enumerate(drawn) if row // self.queries == pair]
            inside = [drawn[at] % self.queries for at in place]
            truth = self._truth(call, dtype, pair, inside, ("query",) if "query" in rows else ())
            where = f"[{', '.join(map(str, divmod(pair, self.heads)))}], {len(inside)} sampled rows"
            if "output" in rows:
                pairs.append((f"output{where}", compare.numbers(found["output"][place]), truth.output, ACCEPT_OUTPUT))
            if "query" in rows:
                actual = compare.numbers(found["query"][place])
                pairs.append((f"gradient of query{where}", actual, truth.gradients["query"], ACCEPT_GRADIENT))
        for name in ("key", "value"):
            if name in rows:
                head = rows[name][0] // self.keys
                inside = [row % self.keys for row in rows[name]]
                of = _group_gradients(self, dtype, direction, number, head)[name]
                due = Bounded(of.value[0, 0, inside], of.bound[0, 0, inside])
                where = f"[{', '.join(map(str, divmod(head, self.heads // self.groups)))}]"
                pairs.append((f"gradient of {name}{where}", compare.numbers(found[name]), due, ACCEPT_GRADIENT))
        return closest(pairs)

    def _truth(
        self, call: Call, dtype: str, pair: int, rows: Sequence[int], gradient_of: tuple[str, ...]
    ) -> oracle.Truth:
        """The oracle on some query rows of one batch item and head."""
        batch, head = divmod(pair, self.heads)
        upstream = None if call.output_gradient is None else compare.numbers(call.output_gradient[batch, head, rows])
        return self._asked(
            dtype,
            compare.numbers(call.tensors["query"][batch, head, rows])[None, None],
            compare.numbers(call.tensors["key"][batch, head // self.groups])[None, None],
            compare.numbers(call.tensors["value"][batch, head // self.groups])[None, None],
            rows,
            None if upstream is None else upstream[None, None],
            gradient_of,
        )

    def group_gradients(self, call: Call, dtype: str, key_head: int) -> dict[str, Bounded]:
        """The oracle's gradients of key and value of one key head: sums over blocks of all queries that read it."""
        assert call.output_gradient is not None
        batch, head = divmod(key_head, self.heads // self.groups)
        heads = slice(head * self.groups, (head + 1) * self.groups)
        query, upstream = (compare.numbers(t[batch, heads]) for t in (call.tensors["query"], call.output_gradient))
        key, value = (compare.numbers(call.tensors[name][batch, head])[None, None] for name in ("key", "value"))
        blocks = []
        for start in range(0, self.queries, BLOCK):
            rows = range(start, min(start + BLOCK, self.queries))
            given = query[:, rows][None], key, value, rows, upstream[:, rows][None], ("key", "value")
            blocks.append(self._asked(dtype, *given).gradients)
        summing = PRECISIONS[dtype].accumulator * self.queries
        found = {}
        for name in ("key", "value"):
            values, bounds = np.stack([of[name].value for of in blocks]), np.stack([of[name].bound for of in blocks])
            found[name] = Bounded(values.sum(0), bounds.sum(0) + summing * abs(values).sum(0).astype(np.float64))
        return found

    def _asked(
        self,
        dtype: str,
        query: oracle.Array,
        key: oracle.Array,
        value: oracle.Array,
        rows: Sequence[int],
        upstream: oracle.Array | None,
        gradient_of: tuple[str, ...],
    ) -> oracle.Truth:
        asked = oracle.Asked(
            query,
            key,
            value,
            scale=1 / math.sqrt(self.width),
            allowed=np.arange(self.keys) <= np.asarray(rows)[:, None] if self.causal else None,
            output_gradient=upstream,
            gradient_of=gradient_of,
        )
        return oracle.attention(asked, PRECISIONS[dtype], widest(dtype))


@lru_cache(maxsize=2)
def _group_gradients(workload: Workload, dtype: str, direction: str, number: int, key_head: int) -> dict[str, Bounded]:
    """What is true of the gradients in a round. All implementations of a table are asked for the same."""
    call = workload.call(dtype, direction)
    return workload.group_gradients(
        replace(call, tensors={**call.tensors, **workload.turned(call, number)}), dtype, key_head
    )


def workloads() -> list[Workload]:
    """All of them, in the order of tables."""
    return [*_documents(), *_vit(), *_decode(), *_ladder(), *_grid()]


def _documents() -> list[Workload]:
    return [
        Workload("documents/one-sentence", "six words in one head: what a call costs when nothing is computed", 6, 6, 2, profiles=EVERY, dtypes={"cpu": CPU, "cuda": CPU}),
        Workload("documents/encoder-block", "the encoder block's test: 8 heads share width 24", 100, 100, 3, 8, batch=2),
        Workload("documents/translation", "English to French: batch 128, 4 heads share width 256, 10 steps", 10, 10, 64, 4, batch=128),
        Workload("documents/fashion-vit", "Fashion-MNIST at 96 × 96: 36 patches and a class token, batch 128", 37, 37, 64, 8, batch=128),
    ]  # fmt: skip


def _vit() -> list[Workload]:
    why = "a layer of ViT-B/16 at 224 × 224: 196 patches and a class token"
    dtypes = {"cpu": ("float32", "bfloat16"), "cuda": HALF}
    trained = {"quick": FORWARD, "standard": DIRECTIONS, "full": DIRECTIONS}
    return [
        Workload("vit/b16", why, 197, 197, 64, 12, profiles=trained, cores={"standard": (1, ALL)}),
        Workload("vit/b16-batch8", f"{why}, 8 images", 197, 197, 64, 12, batch=8, dtypes=dtypes),
    ]


def _decode() -> list[Workload]:
    why = "one new token reads the cache of"
    return [
        Workload("decode/1k", f"{why} 1,024", 1, 1024, 64, 16, profiles=EVERY),
        Workload("decode/8k", f"{why} 8,192", 1, 8192, 64, 16),
        Workload("decode/8k-grouped", f"{why} 8,192, 4 query heads to a key head", 1, 8192, 64, 16, key_heads=4),
        Workload("decode/64k", f"{why} 65,536", 1, 2**16, 64, 16, profiles={"full": FORWARD}),
    ]


def _ladder() -> list[Workload]:
    """From 8k on also on all cores, 32k on them alone: one of them would take minutes for a call."""
    trained = {"standard": (*FORWARD, *TOGETHER), "full": DIRECTIONS}
    found = []
    for thousands in (1, 2, 4, 8, 16, 32, 64):
        length = thousands * 1024
        why = "one head of width 64: how time and memory grow with the length"
        profiles = EVERY if thousands < 4 else {"full": DIRECTIONS} if thousands > 32 else trained
        cores = {"standard": (1,) if thousands < 8 else (ALL,) if thousands > 16 else (1, ALL)}
        found.append(Workload(f"ladder/{thousands}k", why, length, length, profiles=profiles, cores=cores))
    return found


def _grid() -> list[Workload]:
    """FlashAttention's grid for GPUs, and one sixty-fourth of its work for CPUs."""
    found = []
    for (batch, length), width, causal in product(
        ((32, 512), (16, 1024), (8, 2048), (4, 4096), (2, 8192), (1, 16384)), (64, 128), (False, True)
    ):
        name = f"flash/{_thousands(length)}-e{width}" + "-causal" * causal
        why = "FlashAttention's grid: 16,384 tokens, heads times width 2,048"
        found.append(Workload(name, why, length, length, width, 2048 // width, batch=batch, causal=causal, profiles={"full": DIRECTIONS}, dtypes={"cuda": HALF}))  # fmt: skip
    for (batch, length), width, causal in product(((4, 512), (2, 1024), (1, 2048)), (64, 128), (False, True)):
        name = f"flash-small/{_thousands(length)}-e{width}" + "-causal" * causal
        why = "FlashAttention's grid made small for CPUs: 2,048 tokens, heads times width 256"
        directions = DIRECTIONS if (length, width) == (2048, 64) else FORWARD
        found.append(Workload(name, why, length, length, width, 256 // width, batch=batch, causal=causal, profiles={"standard": directions}, dtypes={"cpu": CPU}))  # fmt: skip
    return found


def _thousands(length: int) -> str:
    return f"{length // 1024}k" if length >= 1024 else str(length)


def _drawn(size: tuple[int, ...], random: torch.Generator, dtype: str, factor: float) -> Tensor:
    """Normal numbers around a quarter, so that a lost mean of the values shows."""
    return ((torch.randn(size, generator=random) + 0.25) * factor).to(getattr(torch, dtype))
