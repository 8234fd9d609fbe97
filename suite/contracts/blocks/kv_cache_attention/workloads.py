"""Workloads: sequences decode a token each, with dense caches of one length or pages of skewed lengths."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from attnsuite.cases import Call
from attnsuite.contracts.attention import oracle
from attnsuite.contracts.attention.tolerance import ACCEPT_OUTPUT
from attnsuite.contracts.attention.workloads import drawn
from attnsuite.contracts.blocks.kv_cache_attention.case import CACHES, POSITIONAL, after, places, totals
from attnsuite.contracts.varlen_attention.workloads import OfItems
from attnsuite.judging import compare
from attnsuite.judging.precision import PRECISIONS, widest
from attnsuite.judging.verdicts import Verdict, closest, unlike
from attnsuite.model import Status

if TYPE_CHECKING:
    from torch import Tensor

ROWS = 8
"""The most items whose output of one head is verified."""
FORWARD = ("forward",)


@dataclass(frozen=True, kw_only=True)
class DecodeWorkload(OfItems):
    """Each item appends a token to its cache and attends to it."""

    totals: tuple[int, ...]
    """The number of keys of each item after the append."""
    heads: int = 16
    key_heads: int = 2
    page: int | None = None
    """The slots of a page; None: dense caches."""
    directions = FORWARD
    moving = ("query", *CACHES, "key", "value")
    __hash__ = OfItems.__hash__

    @property
    def length(self) -> int:  # type: ignore[override]
        return max(self.totals)

    @property
    def padding(self) -> float:
        """The keys of caches padded to the longest item, divided by the keys there are."""
        return len(self.totals) * max(self.totals) / sum(self.totals)

    @property
    def shape(self) -> str:
        least, most = min(self.totals), max(self.totals)
        lengths = f"{most}" if least == most else f"{least} to {most}"
        heads = f"{self.heads} heads on {self.key_heads}, width {self.width}"
        pages = "" if self.page is None else f", pages of {self.page}"
        padding = f", padded {self.padding:.1f} × the keys" if least != most else ""
        return f"batch {len(self.totals)}, {lengths} keys, {heads}{pages}{padding}"

    def call(self, dtype: str, direction: str = "forward", *, device: str = "cpu") -> Call:
        items, pages = len(self.totals), self._pages()
        cache = (items, max(self.totals)) if pages is None else (int(pages.max()) + 1, self.page or 0)
        token = (items, 1)
        sizes = {
            "query": (*token, self.heads, self.width),
            **dict.fromkeys(CACHES, (*cache, self.key_heads, self.width)),
            **dict.fromkeys(("key", "value"), (*token, self.key_heads, self.width)),
        }
        tensors = drawn(self.name, sizes, dtype, device)
        tensors["cache_seqlens"] = torch.tensor(self.totals, dtype=torch.int32) - 1
        table = {} if pages is None else {"block_table": pages}
        return Call({**tensors, **table}, {}, POSITIONAL, state=CACHES)

    def _pages(self) -> Tensor | None:
        """The block table: pages in random order, 0 beyond the end of an item; None for dense caches."""
        if self.page is None:
            return None
        counts = [-(-total // self.page) for total in self.totals]
        order = np.random.default_rng(zlib.crc32(self.name.encode())).permutation(sum(counts))
        table = np.zeros((len(counts), max(counts)), dtype=np.int32)
        for item, (count, end) in enumerate(zip(counts, np.cumsum(counts), strict=True)):
            table[item, :count] = order[end - count : end]
        return torch.from_numpy(table)

    def work(self, dtype: str, direction: str) -> Mapping[str, float]:
        items, keys = len(self.totals), sum(self.totals)
        products = 4.0 * self.width * self.heads * keys
        vectors = 2 * keys * self.key_heads + 2 * items * (self.heads + self.key_heads)
        size = float(getattr(torch, dtype).itemsize * vectors * self.width)  # caches, query, output, key and value
        return {
            "attended": products,
            "convention": products,
            "padded": products * self.padding,
            "bytes": size,
            "tokens": float(items),
        }

    def rows(self, direction: str, random: Random) -> Mapping[str, Sequence[int]]:
        items = sorted(random.sample(range(len(self.totals)), min(ROWS, len(self.totals))))
        return {"output": [item * self.heads + random.randrange(self.heads) for item in items]}

    def verdict(
        self, dtype: str, direction: str, number: int, rows: Mapping[str, Sequence[int]], actual: Mapping[str, Tensor]
    ) -> Verdict:
        chosen, output = rows["output"], actual.get("output")
        if output is None:
            return Verdict(Status.FAILED, "output missing from the reply", np.inf)
        if complaint := unlike("rows of output", output, (len(chosen), self.width), getattr(torch, dtype)):
            return Verdict(Status.FAILED, complaint, np.inf)
        call, pairs = _of_round(self, dtype, number), []
        for row, numbers in zip(chosen, compare.numbers(output), strict=True):
            item, head = divmod(row, self.heads)
            slots = places(call, item, range(totals(call)[item]))
            key, value = (
                compare.numbers(call.tensors[name][slots][:, head // (self.heads // self.key_heads)])[None, None]
                for name in CACHES
            )
            query = compare.numbers(call.tensors["query"][item, :, head])[None, None]
            result = oracle.attention(oracle.Problem(query, key, value), PRECISIONS[dtype], widest(dtype))
            pairs.append((f"output[{item}, 0, {head}]", numbers, result.output, ACCEPT_OUTPUT))
        return closest(pairs)


@lru_cache(maxsize=1)
def _of_round(workload: DecodeWorkload, dtype: str, number: int) -> Call:
    """The call of a round, its tokens appended; shared by a table."""
    call = workload.call(dtype)
    call = replace(call, tensors={**call.tensors, **workload.tensors_of_round(call, number)})
    return replace(call, tensors={**call.tensors, **after(call)})


def workloads() -> list[DecodeWorkload]:
    """All of them, in the order of tables."""
    standard: Mapping[str, tuple[str, ...]] = {"standard": FORWARD}
    quick, on_gpu = {"quick": FORWARD, **standard}, {"gpu": FORWARD, "full": FORWARD}
    large: dict[str, Any] = {"heads": 32, "key_heads": 4, "width": 128, "profiles": on_gpu}
    large["dtypes"] = {"cuda": ("bfloat16",)}
    one, many = "a sequence decodes a token with a cache of", "sequences decode a token each, with caches of"
    pages, skewed = "in pages of 16", "of skewed lengths in pages of 16"
    return [
        DecodeWorkload(name="dense/1k", why=f"{one} 1,024", totals=(1024,), profiles=quick),
        DecodeWorkload(name="dense/8k", why=f"{one} 8,192", totals=(8192,), profiles=standard),
        DecodeWorkload(name="dense/1k-b8", why=f"8 {many} 1,024", totals=(1024,) * 8, profiles=standard),
        DecodeWorkload(name="paged/1k", why=f"{one} 1,024 {pages}", totals=(1024,), page=16, profiles=quick),
        DecodeWorkload(name="paged/8k", why=f"{one} 8,192 {pages}", totals=(8192,), page=16,
            profiles={**standard, **on_gpu}),
        DecodeWorkload(name="paged/64k", why=f"{one} 65,536 {pages}", totals=(65_536,), page=16, profiles=on_gpu),
        DecodeWorkload(name="paged/8k-b8", why=f"8 {many} up to 8,192 {skewed}", totals=_skewed(8, 8192), page=16,
            profiles=standard),
        DecodeWorkload(name="dense/4k-b64", why=f"64 {many} 4,096", totals=(4096,) * 64, **large),
        DecodeWorkload(name="paged/16k-b64", why=f"64 {many} up to 16,384 in pages of 256", totals=_skewed(64, 16_384),
            page=256, **large),
    ]  # fmt: skip


def _skewed(items: int, longest: int) -> tuple[int, ...]:
    """Lengths of items in a random order: the n-th longest has 1/√n of the longest, as documents of a corpus roughly."""
    lengths = longest * np.arange(1, items + 1) ** -0.5
    return tuple(map(int, np.random.default_rng(items).permutation(lengths)))
