"""Workloads of attention, and the comparison of their results with the oracle."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from attnsuite import cases as base
from attnsuite.cases import ALL_CORES, Call, Conventions
from attnsuite.cases.tensors import generator, grown, moved
from attnsuite.contracts.attention import feature, oracle
from attnsuite.contracts.attention.cases.draws import Sizes
from attnsuite.contracts.attention.feature import DrawContext, Feature, Grid, features
from attnsuite.contracts.attention.shapes import SIZES, WIDTH, read, typed
from attnsuite.contracts.attention.tolerance import ACCEPT_GRADIENT, ACCEPT_OUTPUT
from attnsuite.judging import compare
from attnsuite.judging.precision import PRECISIONS, Bounded, widest
from attnsuite.judging.verdicts import Verdict, closest, unlike
from attnsuite.model import PASSES, SHAPE, Status

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


CPU, HALF = ("float32",), ("float16", "bfloat16")
LARGE = HALF[1:]
"""On a GPU decoding, the grid and the ladder, which take most of the time of `full`, are timed in one half type: in
bfloat16 the baseline's products are of that type, too."""
FORWARD, TOGETHER = ("forward",), ("forward_backward",)
EVERY = {"quick": FORWARD, "standard": FORWARD, "full": FORWARD}


def workloads() -> list[Workload]:
    """All of them, in the order of tables."""
    return [*_documents(), *_vit(), *_decode(), *_ladder(), *_float32(), *_grid()]


def _documents() -> list[Workload]:
    return [
        Workload("documents/one-sentence", "six words in one head: what a call costs when nothing is computed", 6, 6, 2,
            profiles=EVERY, dtypes={"cpu": CPU, "cuda": CPU}),
        Workload("documents/encoder-block", "the encoder block's test: 8 heads share width 24", 100, 100, 3, 8,
            batch=2),
        Workload("documents/translation", "English to French: batch 128, 4 heads share width 256, 10 steps", 10, 10, 64,
            4, batch=128),
        Workload("documents/fashion-vit", "Fashion-MNIST at 96 × 96: 36 patches and a class token, batch 128", 37, 37,
            64, 8, batch=128),
    ]  # fmt: skip


def _vit() -> list[Workload]:
    why = "a layer of ViT-B/16 at 224 × 224: 196 patches and a class token"
    dtypes = {"cpu": ("float32", "bfloat16"), "cuda": HALF}
    trained = {"quick": FORWARD, "standard": PASSES, "gpu": FORWARD, "full": PASSES}
    return [Workload("vit/b16", why, 197, 197, 64, 12, profiles=trained, cores={"standard": (1, ALL_CORES)}),
        Workload("vit/b16-batch8", f"{why}, 8 images", 197, 197, 64, 12, batch=8, dtypes=dtypes)]  # fmt: skip


def _decode() -> list[Workload]:
    why = "one new token reads the cache of"
    usual = {"standard": FORWARD, "gpu": FORWARD, "full": FORWARD}
    large = {"gpu": FORWARD, "full": FORWARD}
    dtypes = {"cpu": CPU, "cuda": LARGE}
    return [
        Workload("decode/1k", f"{why} 1,024", 1, 1024, 64, 16, profiles=EVERY, dtypes=dtypes),
        Workload("decode/8k", f"{why} 8,192", 1, 8192, 64, 16, profiles=usual, dtypes=dtypes),
        Workload("decode/8k-grouped", f"{why} 8,192, 4 query heads to a key head", 1, 8192, 64, 16, key_heads=4,
            dtypes=dtypes),
        Workload("decode/64k", f"{why} 65,536", 1, 2**16, 64, 16, profiles=large, dtypes=dtypes),
    ]  # fmt: skip


def _ladder() -> list[Workload]:
    """On CPUs from 8k on also on all cores, 32k on them alone: one of them would take minutes for a call."""
    trained = {"standard": (*FORWARD, *TOGETHER), "full": (*FORWARD, *TOGETHER)}
    made = []
    for thousands in (1, 2, 4, 8, 16, 32, 64):
        length = thousands * 1024
        why = "one head of width 64: how time and memory grow with the length"
        profiles = EVERY if thousands < 4 else {"full": (*FORWARD, *TOGETHER)} if thousands > 32 else trained
        cores = {"standard": (1,) if thousands < 8 else (ALL_CORES,) if thousands > 16 else (1, ALL_CORES)}
        made.append(Workload(f"ladder/{thousands}k", why, length, length, profiles=profiles, cores=cores,
            dtypes={"cpu": CPU, "cuda": LARGE}))  # fmt: skip
    return made


def _float32() -> list[Workload]:
    """What float32 costs on tensor cores, where kernels add products of TF32 or use none."""
    why = "causal in float32: 16 heads of width 64"
    shared: dict[str, Any] = {"profiles": {"gpu": FORWARD}, "dtypes": {"cuda": CPU}, "causal": True}
    return [Workload(f"float32/{_thousands(n)}", why, n, n, 64, 16, **shared) for n in (2048, 8192)]


def _grid() -> list[Workload]:
    """FlashAttention's grid for GPUs, and one sixty-fourth of its work for CPUs."""
    made = []
    for (batch, length), width, causal in product(
        ((32, 512), (16, 1024), (8, 2048), (4, 4096), (2, 8192), (1, 16384)), (64, 128), (False, True)
    ):
        name = f"flash/{_thousands(length)}-e{width}" + "-causal" * causal
        trained = width == 128 and (causal or length == 8192)  # the gradients that ten minutes have time for
        why = "FlashAttention's grid: 16,384 tokens, heads times width 2,048"
        made.append(Workload(name, why, length, length, width, 2048 // width, batch=batch, causal=causal,
            profiles={"gpu": (*FORWARD, *(TOGETHER * trained)), "full": (*FORWARD, *TOGETHER)}, dtypes={"cuda": LARGE}))  # fmt: skip
    for (batch, length), width, causal in product(((4, 512), (2, 1024), (1, 2048)), (64, 128), (False, True)):
        name = f"flash-small/{_thousands(length)}-e{width}" + "-causal" * causal
        why = "FlashAttention's grid made small for CPUs: 2,048 tokens, heads times width 256"
        directions = PASSES if (length, width) == (2048, 64) else FORWARD
        made.append(Workload(name, why, length, length, width, 256 // width, batch=batch, causal=causal,
            profiles={"standard": directions}, dtypes={"cpu": CPU}))  # fmt: skip
    return made


def _thousands(length: int) -> str:
    return f"{length // 1024}k" if length >= 1024 else str(length)


def shaped(text: str) -> Workload:
    """The workload that a text names. UsageError, one line, for what it cannot be, with what exists.

    Its name is the canonical text: sizes first, without defaults. The name is enough to make the workload again.
    """
    sizes, values = read(text)
    batch, heads, queries = sizes.get("b", 1), sizes.get("h", 1), sizes["l"]
    key_heads, keys, width = sizes.get("g", heads), sizes.get("s", queries), sizes.get("e", WIDTH)
    arguments = {f.key: values[f.name] for f in features() if f.name in values}
    return Workload(
        SHAPE + _plain(sizes, values),
        "a shape of one's own",
        queries,
        keys,
        width,
        heads,
        batch=batch,
        value_width=sizes.get("v", width),
        profiles=dict.fromkeys(("quick", "standard", "full"), PASSES[:1]),
        **(arguments if key_heads == heads else {"key_heads": key_heads, **arguments}),
    )


def _plain(sizes: Mapping[str, int], values: Mapping[str, Any]) -> str:
    """The text with nothing in it that is usual anyway, always in the same order."""
    every = {"e": WIDTH, **sizes}
    usual = {"b": 1, "h": 1, "g": sizes.get("h", 1), "s": sizes["l"], "v": every["e"]}

    def parts() -> Iterator[str]:
        for name in SIZES:
            if name in every and every[name] != usual.get(name):
                yield f"{name}={every[name]}"
        for name, value in values.items():
            syntax = typed()[name]
            yield f"{name}={syntax.format(value)}" if syntax.expects else name

    return ",".join(parts())
