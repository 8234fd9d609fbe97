"""A case of the contract `kv_cache_attention`: its inputs, and the expected output and caches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import Call, Calls, Conventions
from attnsuite.cases.case import Traits
from attnsuite.cases.expected import Form, PerCallCase, WithinBounds
from attnsuite.cases.layouts import scattered, sliced
from attnsuite.cases.tensors import Array, Generator, as_tensor, dtype_of, generator
from attnsuite.contracts.attention.cases.case import expected_result
from attnsuite.contracts.attention.feature import Grid, visible
from attnsuite.contracts.varlen_attention.packed import Packed
from attnsuite.judging import compare
from attnsuite.judging.precision import PRECISIONS, Bounded
from attnsuite.model import DTYPES

CACHES = ("key_cache", "value_cache")
POSITIONAL = ("query", *CACHES, "cache_seqlens")
LOWER_RIGHT = {"causal": "lower_right", "window": "lower_right"}
"""The conventions of `attention` under which an item is one of its calls."""
UNWRITTEN = 50.0
"""The number in slots that are not written yet, some ten times as large as all others."""
SPREAD = 3.0
"""The standard deviation of queries: weights of one key or a few show which keys were read."""
FOREIGN = (-1, 10**6)
"""Entries of a block table beyond the end of an item, next to pages of others."""
SPARE = 3
"""Pages of a pool that no item has."""
LAYOUTS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "row_major": Tensor.contiguous,
    "heads_first": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),  # as ONNX and onnxruntime have it
    "with_gaps": scattered,
    "inside_another": sliced,
}


def gathered(call: Call) -> list[Call]:
    """The attention of each item: its queries h l e, and the keys and values g t e that it attends to."""
    caches = after(call)
    return [_item(call, caches, item, total) for item, total in enumerate(totals(call))]


def _item(call: Call, caches: Mapping[str, Tensor], item: int, total: int) -> Call:
    where = places(call, item, range(total))
    key, value = (
        (dequantised(caches[name][where], caches[scales][where]) if scales in caches else caches[name][where])
        .transpose(0, 1) for name, scales in SCALES.items()
    )  # fmt: skip
    query = call.tensors["query"][item].transpose(0, 1)
    options = {"is_causal": True, **call.options}
    if query.shape[0] != key.shape[0]:
        options["enable_gqa"] = True
    return Call({"query": query, "key": key, "value": value}, {n: v for n, v in options.items() if v is not False})


def totals(call: Call) -> list[int]:
    """The number of keys of each item after the append."""
    return [int(length) + appended(call) for length in call.tensors["cache_seqlens"]]


def appended(call: Call) -> int:
    """The number of new keys of each item."""
    return call.tensors["key"].shape[1] if "key" in call.tensors else 0


def after(call: Call) -> dict[str, Tensor]:
    """The caches, and their scales, as the call should leave them, in their layout."""
    caches = {name: _copied(call.tensors[name]) for name in call.state}
    new = {name: call.tensors[name.removesuffix("_cache")] for name in CACHES} if appended(call) else {}
    for name, scales in SCALES.items():
        if new and scales in caches:
            new[name], new[scales] = quantised(new[name])
    for name, tokens in new.items():
        for item, total in enumerate(totals(call)):
            caches[name][places(call, item, range(total - appended(call), total))] = tokens[item]
    return caches


def places(call: Call, item: int, slots: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The pages and the places in them of an item's slots; a dense cache has a page for each item."""
    size, table = call.tensors["key_cache"].shape[1], call.tensors.get("block_table")
    index = torch.tensor(list(slots), dtype=torch.int64)
    pages = torch.full_like(index, item) if table is None else table[item].long()[index // size]
    return pages, index % size


def _copied(tensor: Tensor) -> Tensor:
    """A copy with the whole storage."""
    storage = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
    return torch.as_strided(storage.clone(), tensor.shape, tensor.stride(), tensor.storage_offset())


@dataclass(frozen=True)
class ExpectedItems(Packed):
    """The expected output of a call, item by item, and its caches."""

    state: Mapping[str, Tensor] = field(default_factory=dict)


def expected(call: Call) -> ExpectedItems:
    """The expected result of a call."""
    query = call.tensors["query"]
    results = [_expected(item, quantised=SCALES["key_cache"] in call.tensors) for item in gathered(call)]
    items = {number: ({"q": number}, result) for number, result in enumerate(results)}
    return ExpectedItems(Form(tuple(query.shape), query.dtype), items, state=after(call))


def _expected(item: Call, *, quantised: bool) -> WithinBounds:
    result = expected_result(item, LOWER_RIGHT)
    if not quantised:
        return result
    extra = rounding_error(item, LOWER_RIGHT)
    bound = result.output.bound + (extra if result.rows is None else extra[:, result.rows])
    return replace(result, output=Bounded(result.output.value, bound), aggregate_limits={})


@dataclass(frozen=True)
class CacheCase(PerCallCase):
    """One call. Every field has a plain default, so a case states only what is unusual."""

    name: str
    why: str
    valid: tuple[int, ...] = (5, 9)
    """The valid slots of each item before the append."""
    queries: int = 1
    heads: int = 2
    key_heads: int | None = None
    width: int = 8
    capacity: int = 12
    append: bool = False
    page: int | None = None
    """The slots of a page; None: a dense cache."""
    shared: int = 0
    """The first pages of item 0 that all items have."""
    unwritten: float = UNWRITTEN
    quantised: bool = False
    """Whether caches are of int8, with scales."""
    layout: str = "row_major"
    window: tuple[int | None, int | None] | None = None
    scale: float | None = None
    is_causal: bool = True
    replaced: Mapping[str, Any] | None = None
    """Tensors that replace drawn ones, as nested lists; functions of the drawn ones; None for none."""
    dtypes: tuple[str, ...] = DTYPES

    def calls(self, dtype: str) -> Calls:
        return (self.call(dtype),)

    def call(self, dtype: str, salt: str = "") -> Call:
        """Draw the numbers, and lay them out."""
        tensors = self._draw(generator(self.name + salt), dtype)
        laid = {name: LAYOUTS[self.layout](tensor) if tensor.dim() == 4 else tensor for name, tensor in tensors.items()}
        options: dict[str, Any] = {
            "window": self.window,
            "scale": self.scale,
            "is_causal": None if self.is_causal else False,
        }
        given = {name: value for name, value in options.items() if value is not None}
        return Call(laid, given, POSITIONAL, state=(*CACHES, *SCALES.values()) if self.quantised else CACHES)

    def _draw(self, random: Generator, dtype: str) -> dict[str, Tensor]:
        heads = self.heads if self.key_heads is None else self.key_heads
        batch = len(self.valid)
        drawn = {
            "query": random.normal(size=(batch, self.queries, self.heads, self.width)) * SPREAD,
            **{name: random.normal(size=(batch, self.capacity, heads, self.width)) + 0.25 for name in CACHES},
        }
        for name in CACHES:
            drawn[name][np.arange(self.capacity) >= np.asarray(self.valid)[:, None]] = self.unwritten
        drawn["cache_seqlens"] = np.asarray(self.valid, dtype=np.int32)
        if self.append:
            size = (batch, self.queries, heads, self.width)
            drawn |= {name: random.normal(size=size) + 0.25 for name in ("key", "value")}
        if self.page is not None:
            drawn |= self._paged(random, drawn, self.page)
        for name, scales in SCALES.items() if self.quantised else ():
            drawn[name], drawn[scales] = (part.numpy() for part in quantised(torch.from_numpy(drawn[name])))
        for name, change in (self.replaced or {}).items():
            drawn[name] = change(drawn[name]) if callable(change) else np.asarray(change)
        return {
            name: as_tensor(array, "float32" if name in SCALES.values() else dtype)
            for name, array in drawn.items()
            if array.dtype != object
        }

    @property
    def new_tokens(self) -> int:
        """The tokens that all calls together append to an item."""
        return self.queries if self.append else 0

    def _paged(self, random: Generator, drawn: Mapping[str, Array], size: int) -> dict[str, Array]:
        """Pools of pages with the numbers of dense caches, and the table of the pages."""
        batch, most = len(self.valid), -(-self.capacity // size)
        used = [min(-(-(length + self.new_tokens) // size), most) for length in self.valid]
        pages = list(random.permutation(sum(used) + SPARE))
        table = np.full((batch, most), 0)
        pools = {
            name: np.full((len(pages), size, *drawn[name].shape[2:]), self.unwritten) for name in CACHES
        }  # p z g e
        foreign = [*FOREIGN, pages[-1], pages[0]]
        for item, count in enumerate(used):
            table[item] = [foreign[(item + page - count) % len(foreign)] for page in range(most)]
            for page in range(count):
                table[item, page] = table[0, page] if item and page < self.shared else pages.pop(0)
            for name, pool in pools.items():
                for slot in range(self.valid[item]):
                    pool[table[item, slot // size], slot % size] = drawn[name][item, slot]
        return {**pools, "block_table": table.astype(np.int32)}

    def expected(self, calls: Calls, conventions: Conventions) -> tuple[ExpectedItems, ...]:
        return tuple(map(expected, calls))

    def traits(self, dtype: str) -> Traits:
        """Its dtype, and its fields that are not at their defaults."""
        hidden = ("name", "why", "dtypes", "replaced", "unwritten")
        shown = [field for field in fields(self) if field.name not in hidden]
        names = [field.name for field in shown if getattr(self, field.name) != field.default]
        return {"dtype": (dtype,), **{name: (f"{name} {getattr(self, name)}".replace("_", " "),) for name in names}}


@dataclass(frozen=True)
class StepsCase(CacheCase):
    """Calls that append one after the other to the same caches, in chunks of these numbers of tokens."""

    chunks: tuple[int, ...] = (1, 1)

    @property
    def new_tokens(self) -> int:
        return sum(self.chunks)

    def calls(self, dtype: str) -> Calls:
        calls: list[Call] = []
        for number, queries in enumerate(self.chunks):
            call = replace(self, queries=queries, append=True).call(dtype, f" {number}")
            if calls:
                lengths = calls[-1].tensors["cache_seqlens"] + calls[-1].tensors["query"].shape[1]
                table = {name: tensor for name, tensor in calls[0].tensors.items() if name == "block_table"}
                held = {**after(calls[-1]), "cache_seqlens": lengths.to(torch.int32), **table}
                call = replace(call, tensors={**call.tensors, **held}, same_storage=True)
            calls.append(call)
        return tuple(calls)


SCALES = {"key_cache": "key_scales", "value_cache": "value_scales"}
"""The scales of each cache."""
LARGEST = 127.0
"""The int8 number of the largest feature of a vector; -128 is not used."""


def quantised(new: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors … e as int8 numbers … e and float32 scales …; zeros where the scale is 0 or no finite number."""
    vectors = new.float()
    scales = vectors.abs().amax(-1) / torch.tensor(LARGEST, device=vectors.device)
    return (vectors / scales[..., None]).nan_to_num(0.0).round().to(torch.int8), scales


def dequantised(numbers: Tensor, scales: Tensor) -> Tensor:
    """The vectors … e that int8 numbers and their scales stand for: exact, since 8 and 24 bits fit into float64."""
    return numbers.double() * scales.double()[..., None]


def rounding_error(item: Call, conventions: dict[str, str]) -> Array:
    """The error of an output, h l e, if each product of a number and its scale is rounded once to the query's dtype.

    A relative error u of all features of keys moves a score by at most u m, with m = |scale| Σ |q| |k|. If D is the
    largest of a query's keys, its weights change by factors between exp(-2 u D) and exp(2 u D), and values by 1 + u.
    """
    query, key, value = (compare.numbers(item.tensors[name]) for name in ("query", "key", "value"))  # h l e, g t e
    groups = len(query) // max(len(key), 1)
    key, value = key.repeat(groups, 0).swapaxes(1, 2), value.repeat(groups, 0)
    seen = visible(item.options, Grid.make(query.shape[1], key.shape[2], None), conventions)
    seen = np.ones((query.shape[1], key.shape[2]), dtype=bool) if seen is None else seen
    scale, unit = item.options.get("scale", query.shape[2] ** -0.5), PRECISIONS[dtype_of(item)].unit
    scores = np.where(seen, scale * query @ key, -np.inf)
    powers = np.exp(scores - np.max(scores, -1, keepdims=True, initial=np.finfo(float).min))
    weights = powers / np.maximum(powers.sum(-1, keepdims=True), np.finfo(float).tiny)
    sizes = np.where(seen, abs(scale) * abs(query) @ abs(key), 0.0).max(-1, keepdims=True, initial=0.0)
    growth, mean = np.expm1(2 * unit * sizes), weights @ abs(value)
    return np.asarray(growth * (mean + abs(weights @ value)) + unit * (1 + growth) * mean)
