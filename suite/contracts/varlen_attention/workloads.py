"""Workloads of packed items: batches of skewed lengths as in training, the same without skew, and decoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate, pairwise
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from attnsuite import cases
from attnsuite.cases import Call, Conventions
from attnsuite.cases.tensors import grown, moved
from attnsuite.contracts.attention import oracle
from attnsuite.contracts.attention.tolerance import ACCEPT_GRADIENT, ACCEPT_OUTPUT
from attnsuite.contracts.attention.workloads import BACKWARD_FLOPS, drawn
from attnsuite.contracts.varlen_attention.contract import INPUTS, POSITIONAL
from attnsuite.contracts.varlen_attention.packed import ROLES
from attnsuite.judging import compare
from attnsuite.judging.precision import PRECISIONS, widest
from attnsuite.judging.verdicts import Verdict, closest, unlike
from attnsuite.model import PASSES, Status

if TYPE_CHECKING:
    from torch import Tensor

PAIRS, ROWS = 4, 32
"""The most pairs of item and head that are verified, and the most rows of each."""
VERIFIED_SCORES = 2**18
"""Gradients of keys and values need all scores of a key head in an item: only smaller items are verified."""
SKEW = 0.8
"""The exponent of lengths: the n-th longest item has a share of n^−0.8, as documents of a corpus roughly do."""
FORWARD, TOGETHER = ("forward",), ("forward", "forward_backward")


def skewed(items: int, total: int) -> tuple[int, ...]:
    """Lengths of items, at least 1 and `total` together; the longest is several times as long as the mean."""
    shares = np.arange(1, items + 1) ** -SKEW
    counts = np.maximum((shares * total / shares.sum()).astype(int), 1)
    counts[0] += total - counts.sum()
    return tuple(map(int, np.random.default_rng(items).permutation(counts)))


@dataclass(frozen=True, kw_only=True)
class OfItems(cases.Workload):
    """Items of several lengths to time. A name has one workload."""

    name: str
    why: str
    heads: int = 8
    key_heads: int = 8
    width: int = 64
    profiles: Mapping[str, tuple[str, ...]]
    cores: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dtypes: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"cpu": ("float32",), "cuda": ("bfloat16",)})
    moving: ClassVar[tuple[str, ...]] = INPUTS
    """The tensors that differ from round to round."""

    def __hash__(self) -> int:
        return hash(self.name)

    def tensors_of_round(self, call: Call, number: int) -> Mapping[str, Tensor]:
        inputs = {name: moved(call.tensors[name], number, place) for place, name in enumerate(self.moving)}
        return {**inputs, "query": grown(inputs["query"], number)}


@dataclass(frozen=True, kw_only=True)
class PackedWorkload(OfItems):
    """One packed call."""

    queries: tuple[int, ...]
    """The number of queries of each item."""
    keys: tuple[int, ...]
    causal: bool = True
    conventions: Conventions = field(default_factory=dict)
    directions = PASSES
    __hash__ = OfItems.__hash__

    @property
    def length(self) -> int:  # type: ignore[override]
        return sum(self.keys)

    @property
    def shape(self) -> str:
        heads = f"{self.heads} heads" + (f" on {self.key_heads}" if self.heads != self.key_heads else "")
        lengths = f"{min(self.keys)} to {max(self.keys)} keys"
        words = f"{len(self.keys)} items of {lengths}, {heads}, width {self.width}"
        work = self.work("float32", "forward")
        ratio = work["padded"] / work["convention"]
        padding = f", padded {ratio:.1f} × the work" if ratio > 1 else ""
        return f"{words}, causal{padding}" if self.causal else words + padding

    def under(self, conventions: Conventions) -> PackedWorkload:
        declared = {point: chosen for point, chosen in conventions.items() if point == "causal"}
        return self if declared == self.conventions else replace(self, conventions=declared)

    def call(self, dtype: str, direction: str = "forward", *, device: str = "cpu") -> Call:
        rows, key_rows = (
            (sum(counts), heads, self.width)
            for counts, heads in ((self.queries, self.heads), (self.keys, self.key_heads))
        )
        shapes = {"query": rows, "key": key_rows, "value": key_rows, "output": rows}
        tensors = drawn(self.name, shapes, dtype, device)
        upstream, backward = tensors.pop("output"), direction != "forward"
        for role, counts in (("q", self.queries), ("k", self.keys)):
            tensors[f"cu_seqlens_{role}"] = torch.tensor([0, *accumulate(counts)], dtype=torch.int32)
        longest = {"max_seqlen_q": max(self.queries), "max_seqlen_k": max(self.keys)}
        options = longest | ({"is_causal": True} if self.causal else {})
        return Call(tensors, options, POSITIONAL, INPUTS * backward, upstream if backward else None)

    def work(self, dtype: str, direction: str) -> Mapping[str, float]:
        times = {"forward": 1.0, "backward": BACKWARD_FLOPS, "forward_backward": 1 + BACKWARD_FLOPS}[direction]
        pair, counts = 4.0 * self.width * self.heads, list(zip(self.queries, self.keys, strict=True))
        visible = sum(int(self._visible(*count).sum()) for count in counts)
        dense = sum(queries * keys for queries, keys in counts) * (0.5 if self.causal else 1.0)
        rows = self.heads * sum(self.queries) + self.key_heads * sum(self.keys)
        moved_once = 2.0 * getattr(torch, dtype).itemsize * rows * self.width
        return {
            "attended": times * pair * visible,
            "convention": times * pair * dense,
            "padded": times * pair * len(counts) * max(self.queries) * max(self.keys) * (0.5 if self.causal else 1.0),
            "bytes": moved_once if direction == "forward" else 2 * moved_once,
            "tokens": float(sum(self.queries)),
        }

    def _visible(self, queries: int, keys: int) -> oracle.Array:
        """The number of keys that each query of an item sees."""
        shift = 0 if self.conventions.get("causal") == "upper_left" else keys - queries
        return np.clip(np.arange(queries) + shift + 1, 0, keys) if self.causal else np.full(queries, keys)

    def rows(self, direction: str, random: Random) -> Mapping[str, Sequence[int]]:
        ends = [0, *accumulate(self.queries)]
        items = sorted({*random.sample(range(len(self.queries)), min(PAIRS - 1, len(ends) - 1)), len(self.queries) - 1})
        rows: list[int] = []
        for item in items:
            head, count = random.randrange(self.heads), self.queries[item]
            inside = {*random.sample(range(count), min(ROWS, count)), count - 1}
            rows += [(ends[item] + row) * self.heads + head for row in sorted(inside)]
        if direction == "forward":
            return {"output": rows}
        chosen: dict[str, Sequence[int]] = (
            {"query": rows} if direction == "backward" else dict.fromkeys(("output", "query"), rows)
        )
        return chosen | self._key_rows(random)

    def _key_rows(self, random: Random) -> dict[str, Sequence[int]]:
        """Some rows of keys and values of one key head in one item."""
        group, counts = self.heads // self.key_heads, list(zip(self.queries, self.keys, strict=True))
        small = [n for n, (queries, keys) in enumerate(counts) if 0 < group * queries * keys <= VERIFIED_SCORES]
        if not small:
            return {}
        item, head = random.choice(small), random.randrange(self.key_heads)
        start = sum(self.keys[:item])
        inside = random.sample(range(self.keys[item]), min(ROWS, self.keys[item]))
        rows = [(start + row) * self.key_heads + head for row in inside]
        return {"key": rows, "value": rows}

    def verdict(
        self, dtype: str, direction: str, number: int, rows: Mapping[str, Sequence[int]], actual: Mapping[str, Tensor]
    ) -> Verdict:
        if absent := set(rows) - set(actual):
            return Verdict(Status.FAILED, f"{' and '.join(sorted(absent))} missing from the reply", np.inf)
        for name, places in rows.items():
            if complaint := unlike(f"rows of {name}", actual[name], (len(places), self.width), getattr(torch, dtype)):
                return Verdict(Status.FAILED, complaint, np.inf)
        call = _turned(self.under({}), dtype, direction, number)
        pairs = []
        for name, places in rows.items():
            heads = self.heads if ROLES[name] == "q" else self.key_heads
            for item, head, at in self._by_item_and_head(name, places, heads):
                inside = [places[n] // heads - self._start(name, item) for n in at]
                result = self._oracle_result(call, dtype, name, item, head, inside)
                where = f"[item {item}, head {head}], {len(at)} sampled rows"
                says = f"output{where}" if name == "output" else f"gradient of {name}{where}"
                accept = ACCEPT_OUTPUT if name == "output" else ACCEPT_GRADIENT
                pairs.append((says, compare.numbers(actual[name][at]), result, accept))
        return closest(pairs)

    def _start(self, name: str, item: int) -> int:
        return sum((self.queries if ROLES[name] == "q" else self.keys)[:item])

    def _by_item_and_head(self, name: str, places: Sequence[int], heads: int) -> Iterator[tuple[int, int, list[int]]]:
        """Each item and head of these rows, and which of the rows are theirs."""
        ends = np.cumsum(self.queries if ROLES[name] == "q" else self.keys)
        of = [(int(np.searchsorted(ends, place // heads, "right")), place % heads) for place in places]
        for pair in sorted({*of}):
            yield (*pair, [n for n, other in enumerate(of) if other == pair])

    def _oracle_result(self, call: Call, dtype: str, name: str, item: int, head: int, inside: list[int]) -> Any:
        """The expected rows of an item and head: of its output, or of a gradient, which needs all its queries."""
        group = self.heads // self.key_heads
        of_queries = ROLES[name] == "q"
        rows = np.asarray(inside) if of_queries else np.arange(self.queries[item])
        heads = slice(head, head + 1) if of_queries else slice(head * group, (head + 1) * group)
        key_head = head // group if of_queries else head

        def part(tensor: Tensor, role: str, heads: slice) -> oracle.Array:
            start, stop = list(pairwise([0, *accumulate(self.queries if role == "q" else self.keys)]))[item]
            return compare.numbers(tensor[start:stop, heads].transpose(0, 1))[None]

        key, value = (part(call.tensors[each], "k", slice(key_head, key_head + 1)) for each in ("key", "value"))
        corner = self.conventions.get("causal", "lower_right")
        problem = oracle.Problem(
            part(call.tensors["query"], "q", heads)[:, :, rows],
            key,
            value,
            {"is_causal": self.causal},
            {"causal": corner},
            rows=rows,
            queries=self.queries[item],
            gradient_of=() if name == "output" else (name,),
        )
        if call.output_gradient is not None:
            problem = replace(problem, output_gradient=part(call.output_gradient, "q", heads)[:, :, rows])
        result = oracle.attention(problem, PRECISIONS[dtype], widest(dtype))
        if of_queries:
            return result.output if name == "output" else result.gradients[name]
        gradient = result.gradients[name]
        return replace(gradient, value=gradient.value[0, 0, inside], bound=gradient.bound[0, 0, inside])


@lru_cache(maxsize=1)
def _turned(workload: PackedWorkload, dtype: str, direction: str, number: int) -> Call:
    """The call of a round, shared by a table."""
    call = workload.call(dtype, direction)
    return replace(call, tensors={**call.tensors, **workload.tensors_of_round(call, number)})


def workloads() -> list[PackedWorkload]:
    """All of them, in the order of tables."""
    small = {"quick": FORWARD, "standard": PASSES}
    usual: Mapping[str, tuple[str, ...]] = {"standard": FORWARD, "gpu": FORWARD, "full": TOGETHER}
    gpu: Mapping[str, tuple[str, ...]] = {"gpu": FORWARD, "full": TOGETHER}
    training = "causal training on documents of skewed lengths: what padding would cost"
    equal = "as many tokens in items of equal lengths: nothing to pad"
    made = []
    for name, items, total, heads, profiles in (("1k", 8, 1024, 2, small), ("8k", 64, 8192, 8, usual)):
        sizes: dict[str, Any] = {"heads": heads, "key_heads": heads, "profiles": profiles}
        skew, even = skewed(items, total), (total // items,) * items
        made += [
            PackedWorkload(name=f"packed/{name}", why=training, queries=skew, keys=skew, **sizes),
            PackedWorkload(name=f"packed/{name}-equal", why=equal, queries=even, keys=even, **sizes),
        ]
    large, cache = skewed(128, 65_536), skewed(64, 16_384)
    return [
        *made,
        PackedWorkload(name="packed/64k", why=f"{training}, 4 query heads to a key head", queries=large, keys=large,
            heads=16, key_heads=4, width=128, profiles=gpu, dtypes={"cuda": ("bfloat16",)}),
        PackedWorkload(name="packed/decode", why="64 sequences decode a token each, with caches of skewed lengths",
            queries=(1,) * 64, keys=cache, heads=16, key_heads=4, width=128, causal=False,
            profiles={"standard": FORWARD, "gpu": FORWARD, "full": FORWARD}),
    ]  # fmt: skip
