"""The formula in steps that a mutant may replace. A dense cache is a pool with a page for each item.

The attention of an item is one of the contract `attention`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps
from attnsuite.cases.mutants import formula
from attnsuite.contracts.attention.computation.forward import Dense
from attnsuite.contracts.blocks.kv_cache_attention.case import quantised
from attnsuite.contracts.varlen_attention.mutants import Item

Places = tuple[Tensor, Tensor]
"""The pages of some slots, and the slots' places in them."""
Window = tuple[int | None, int | None]
Pair = tuple[Tensor, Tensor]
"""Of keys, and of values."""


class Cached(Steps):
    """Item by item: append, gather, attend. The attention of an item refuses a bad window and indivisible heads."""

    axes = Axes(
        query="b l h e", key_cache="p s g e", value_cache="p s g e", cache_seqlens="b", key="b l g e", value="b l g e",
        block_table="b m", key_scales="p s g", value_scales="p s g",
    )  # fmt: skip

    def compute(
        self,
        query: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        cache_seqlens: Tensor,
        *,
        key: Tensor | None = None,
        value: Tensor | None = None,
        block_table: Tensor | None = None,
        key_scales: Tensor | None = None,
        value_scales: Tensor | None = None,
        is_causal: bool = True,
        window: Window | None = None,
        scale: float | None = None,
    ) -> Tensor:
        size, wide = key_cache.shape[1], self.wide(query)
        scales = None if key_scales is None or value_scales is None else (key_scales, value_scales)
        table = self.table(block_table, len(query))
        lengths = self.lengths(cache_seqlens.tolist())
        if key is not None and value is not None:
            positions = [self.new_positions(length, query.shape[1]) for length in lengths]
            places = self.write_places(positions, table, size)
            keys, values = self.stored(key), self.stored(value)
            if scales is not None:
                (keys, of_keys), (values, of_values) = self.quantise(keys), self.quantise(values)
                self.append_scales(scales, places, (of_keys, of_values))
            self.append_keys(key_cache, places, keys)
            self.append_values(value_cache, places, values)
        totals = self.totals(lengths, 0 if key is None else query.shape[1], size)
        output = query.new_zeros(query.shape)
        for item, total in enumerate(totals):
            places = self.read_places(self.read_positions(total, size), item, table, size)
            keys, values = (cache[places].to(wide) for cache in (key_cache, value_cache))
            if scales is not None:
                pairs = zip((keys, values), self.read_scales(scales, places), strict=True)
                keys, values = (
                    self.dequantise(numbers, of_vectors.to(wide)[..., None], query.dtype)
                    for numbers, of_vectors in pairs
                )
            of_item = Item(
                slice(0, query.shape[1]), slice(0, len(keys)), (query[item].to(wide), keys, values),
                {"is_causal": is_causal, "window": window, "scale": scale},
            )  # fmt: skip
            output[item] = self.attend(of_item, totals).to(query.dtype)
        return output

    @staticmethod
    def check(arguments: Arguments, sizes: Sizes) -> None:
        query, table, size = arguments["query"], arguments["block_table"], sizes["s"]
        if (arguments["key"] is None) != (arguments["value"] is None):
            raise ValueError("key without value")
        scales = [arguments[name] for name in ("key_scales", "value_scales")]
        if (scales[0] is None) != (scales[1] is None):
            raise ValueError("scales of keys without those of values")
        stored = query.dtype if scales[0] is None else torch.int8
        dtypes = {"key_cache": stored, "value_cache": stored, "key": query.dtype, "value": query.dtype}
        dtypes |= {"key_scales": torch.float32, "value_scales": torch.float32}
        if any(arguments[name] is not None and arguments[name].dtype != dtype for name, dtype in dtypes.items()):
            raise ValueError("other dtypes than the query's, or those of int8 caches")
        if table is None and sizes["p"] != sizes["b"]:
            raise ValueError("other items than the cache's")
        totals = arguments["cache_seqlens"] + (0 if arguments["key"] is None else sizes["l"])
        if any(arguments["cache_seqlens"] < 0) or any(totals > size * (1 if table is None else sizes["m"])):
            raise ValueError("a length outside the cache")
        for item, total in enumerate(totals.tolist() if table is not None else ()):
            pages = table[item, : -(-total // size)]
            if bool(((pages < 0) | (pages >= sizes["p"])).any()):
                raise ValueError("a page outside the pool")

    table = formula(lambda block_table, items: torch.arange(items)[:, None] if block_table is None else block_table)
    lengths = staticmethod(lambda lengths: lengths)
    stored = formula(lambda new: new)
    quantise = staticmethod(quantised)
    dequantise = formula(lambda numbers, scales, dtype: numbers * scales)  # dtype is the query's
    read_scales = staticmethod(lambda scales, places: (scales[0][places], scales[1][places]))  # t g
    new_positions = formula(lambda length, count: torch.arange(length, length + count))
    totals = staticmethod(lambda lengths, added, size: [length + added for length in lengths])
    read_positions = formula(lambda total, size: torch.arange(total))
    attend = formula(lambda item, totals: item.computed(Dense()))  # l h e

    @staticmethod
    def write_places(positions: list[Tensor], table: Tensor, size: int) -> Places:
        """Of all items, b l."""
        slots = torch.stack(positions) if positions else torch.zeros(0, 0, dtype=torch.int64)
        return table.long().gather(1, slots // size), slots % size

    @staticmethod
    def append_keys(cache: Tensor, places: Places, new: Tensor) -> None:
        cache[places] = new

    @staticmethod
    def append_values(cache: Tensor, places: Places, new: Tensor) -> None:
        cache[places] = new

    @staticmethod
    def append_scales(scales: Pair, places: Places, new: Pair) -> None:
        for cache, of_new in zip(scales, new, strict=True):
            cache[places] = of_new

    @staticmethod
    def read_places(positions: Tensor, item: int, table: Tensor, size: int) -> Places:
        return table[item].long()[positions // size], positions % size
