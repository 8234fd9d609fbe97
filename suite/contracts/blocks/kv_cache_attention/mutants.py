"""The formula of `kv_cache_attention` in steps, its mutants by the step that goes wrong, and its correct variants.

A dense cache is a pool with a page for each item. The attention of an item is one of the contract `attention`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases import Variant
from attnsuite.cases.changes import first_for_all
from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps, all_mutants
from attnsuite.cases.mutants import Mutation, formula, unless_none, with_arguments, with_result
from attnsuite.contracts.attention.computation.forward import Dense, Tiled
from attnsuite.contracts.attention.variants import WITH_LSE
from attnsuite.contracts.blocks.kv_cache_attention.case import quantised
from attnsuite.contracts.varlen_attention.mutants import Item, in_items

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


CONTROLS = {"correct": Cached()}


def _copied(names: tuple[str, ...]) -> Any:
    return with_arguments(**dict.fromkeys(names, Tensor.clone))


def _totals(cache_seqlens: Tensor, output: Tensor, key: Tensor | None) -> list[int]:
    """The number of keys of each item after the append."""
    return [length + (0 if key is None else output.shape[1]) for length in cache_seqlens.tolist()]


def _clears_unwritten(
    output: Tensor, key_cache: Tensor, cache_seqlens: Tensor, key: Tensor | None, block_table: Tensor | None
) -> Tensor:
    """A dense cache is cleaned behind the valid slots."""
    for item, total in enumerate(_totals(cache_seqlens, output, key) if block_table is None else ()):
        key_cache[item, total:] = 0
    return output


def _multiplies_unwritten(
    output: Tensor, value_cache: Tensor, cache_seqlens: Tensor, key: Tensor | None, block_table: Tensor | None
) -> Tensor:
    size, table = value_cache.shape[1], Cached.table(block_table, len(output))
    for item, total in enumerate(_totals(cache_seqlens, output, key)):
        rest = torch.arange(total, -(-total // size) * size)
        output[item] += 0.0 * value_cache[Cached.read_places(rest, item, table, size)].sum()
    return output


def _advances_lengths(output: Tensor, cache_seqlens: Tensor, key: Tensor | None) -> Tensor:
    cache_seqlens += 0 if key is None else output.shape[1]
    return output


def _behind_which_new_tokens_fit(
    lengths: Tensor, key: Tensor | None, key_cache: Tensor, block_table: Tensor | None
) -> Tensor:
    slots = key_cache.shape[1] * (1 if block_table is None else block_table.shape[1])
    return lengths if key is None else lengths.clamp_max(max(slots - key.shape[1], 0))


def _from_page_start(places: Places) -> Places:
    """Slots of new tokens count from the page's first."""
    pages, slots = places
    return pages, slots - slots[:, :1] if slots.shape[1] and bool((slots >= slots[:, :1]).all()) else slots


def _unshared(positions: Tensor, item: int, table: Tensor, size: int) -> Places:
    """In place of the first page of the item before, page 0 is read."""
    pages, slots = Cached.read_places(positions, item, table, size)
    before = table[item - 1 : item].flatten() if item else table.new_empty(0)
    return torch.where(torch.isin(pages, before[before >= 0][:1]), pages.roll(1) * 0, pages), slots


def _ratio(new: Tensor, scales: Tensor) -> Tensor:
    return (new.float() / scales[..., None]).nan_to_num(0.0)


def _stored(new: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
    return _ratio(new, scales).round().clamp(-127, 127).to(torch.int8), scales


def _away_from_0(ratio: Tensor) -> Tensor:
    return (ratio.sign() * (ratio.abs() + 0.5).floor()).to(torch.int8)


def _with(change: Any) -> Any:
    """Items are attended to with other options."""
    return lambda item, totals: item._replace(options={**item.options, **change(item.options)}).computed(Dense())


def _aligned(**corners: str) -> Any:
    return lambda item, totals: item._replace(aligned={**item.aligned, **corners}).computed(Dense())


def _moved(move: Any, *rules: str) -> Any:
    """Rules of visibility have other positions of the queries."""

    def attend(item: Item, totals: list[int]) -> Tensor:
        def at(rule: Any) -> Any:
            return lambda grid, call: rule(replace(grid, rows=move(grid.rows, item, totals)), call)

        return item.computed(Dense(**{rule: at(getattr(Dense(), rule)) for rule in rules}))

    return attend


OF_ATTENTION = (
    "tiles_key_heads", "reads_first_key_head", "unscaled", "ignores_scale", "reads_zero_scale_as_none",
    "ignores_width_beyond_64", "allows_one_future_key", "excludes_the_diagonal", "ignores_causal", "ignores_window",
    "ignores_window_for_one_query", "counts_window_with_own_position", "sees_one_key_left_of_window",
    "ignores_right_of_window", "swaps_sides_of_window", "reads_zero_width_as_unbounded", "gives_nan_for_empty_row",
    "gives_mean_for_empty_row", "does_not_subtract_largest",
)  # fmt: skip
"""Mutants of `attention` that are mutants here, too."""
FROM_ATTENTION = in_items(Cached, OF_ATTENTION)
MUTANTS = all_mutants(
    Cached,
    whole={
        "returns_without_writing": Mutation("the caches are copied: the caller's are not written",
            _copied(("key_cache", "value_cache")), "MLX and ONNX return new caches"),
        "clears_unwritten_slots": Mutation("slots behind the last token are set to 0", with_result(_clears_unwritten)),
        "advances_lengths": Mutation("cache_seqlens is advanced in place", with_result(_advances_lengths)),
        "multiplies_unwritten_by_0": Mutation(
            "the rest of the last page is read with weights of 0: 0 · NaN is NaN", with_result(_multiplies_unwritten),
            "GroupQueryAttention on CPUs, onnxruntime pull 20521"),
        "never_appends": Mutation("key and value are ignored", with_arguments(key=lambda _: None,
            value=lambda _: None)),
        "reads_keys_as_values": Mutation("values are read from the cache of keys",
            with_arguments(value_cache=lambda cache, key_cache, key: key_cache if key is None else cache)),
        "clamps_lengths_from_below": Mutation("a negative length is accepted as 0",
            with_arguments(cache_seqlens=lambda lengths: lengths.clamp_min(0))),
        "clamps_lengths_to_capacity": Mutation("a length beyond the cache is accepted as its end",
            with_arguments(cache_seqlens=lambda lengths, key_cache, block_table: lengths if block_table is not None
                else lengths.clamp_max(key_cache.shape[1]))),
        "clamps_pages": Mutation("a page outside the pool is accepted as its first or last",
            with_arguments(block_table=unless_none(lambda table, key_cache: table.clamp(0, len(key_cache) - 1)))),
        "writes_over_the_last_slots": Mutation("new tokens of a full cache replace its last ones",
            with_arguments(cache_seqlens=_behind_which_new_tokens_fit)),
        "accepts_key_alone": Mutation("a key without a value is ignored",
            with_arguments(key=lambda key, value: None if value is None else key)),
        "accepts_one_row_of_pages": Mutation("one row of a block table is taken for all items",
            with_arguments(block_table=unless_none(lambda table, query: table.expand(len(query), -1)
                if len(table) == 1 else table))),
    },
    stored={
        "rounds_new_keys": Mutation("new keys and values are rounded to bfloat16 on the way to the cache",
            with_result(lambda new: new.bfloat16().to(new.dtype))),
        "stores_first_token": Mutation("the first new token is stored for all", with_result(first_for_all(1))),
    },
    quantise={
        "stores_numbers_without_scale": Mutation("new vectors are rounded to int8 without a scale",
            with_result(lambda pair, new: (new.float().clamp(-127, 127).round().to(torch.int8), pair[1]))),
        "truncates_to_int8": Mutation("int8 numbers are truncated, not rounded",
            with_result(lambda pair, new: (_ratio(new, pair[1]).trunc().to(torch.int8), pair[1]))),
        "rounds_halves_away": Mutation("halves are rounded away from 0, not to the even number",
            with_result(lambda pair, new: (_away_from_0(_ratio(new, pair[1])), pair[1]))),
        "largest_is_128": Mutation("scales are max |x| / 128", with_result(lambda pair, new: _stored(new,
            pair[1] * (127 / 128)))),
        "one_scale_for_all_heads": Mutation("a token has one scale for all heads",
            with_result(lambda pair, new: _stored(new, pair[1].amax(2, keepdim=True).expand_as(pair[1])))),
        "scale_of_largest_number": Mutation("scales are those of the largest number, not of the largest size",
            with_result(lambda pair, new: _stored(new, new.float().amax(-1) / 127))),
        "zeros_have_scale_1": Mutation("the scale of a vector of zeros is 1", with_result(lambda pair, new:
            (pair[0], pair[1].masked_fill(pair[1] == 0, 1.0)))),
        "rounds_scales": Mutation("scales are rounded to float16", with_result(lambda pair, new:
            (pair[0], pair[1].half().float()))),
    },
    dequantise={
        "ignores_scales": Mutation("int8 numbers are taken without their scales",
            lambda numbers, scales, dtype: numbers),
        "zero_point_on_read": Mutation("int8 numbers are read with a zero point of -128",
            with_arguments(numbers=lambda numbers: numbers + 128), "uint8 caches"),
        "scale_of_first_token": Mutation("all tokens have the scale of the first",
            with_arguments(scales=first_for_all(0))),
    },
    read_scales={
        "swaps_scales": Mutation("the scales of keys and values are exchanged",
            with_arguments(scales=lambda scales: scales[::-1])),
        "scales_of_pool_order": Mutation("scales are read in the pool's order, not by the block table",
            with_arguments(places=lambda places: (torch.cumsum((places[1] == 0).long(), 0) - 1, places[1]))),
        "scales_of_first_page": Mutation("all pages have the scales of the item's first",
            with_arguments(places=lambda places: (places[0][:1].expand_as(places[0]), places[1]))),
    },
    append_scales={
        "appends_no_scales": Mutation("the scales of new keys and values are not written",
            lambda scales, places, new: None),
        "appends_scale_of_last_token": Mutation("all new tokens get the scale of the last",
            with_arguments(new=lambda new: tuple(x[:, -1:].expand_as(x) for x in new))),
    },
    new_positions={
        "appends_one_slot_early": Mutation("tokens are appended one slot early: lengths count them",
            with_result(lambda positions: (positions - 1).clamp_min(0)), "seqlens_k of GroupQueryAttention"),
        "appends_at_0": Mutation("tokens are appended from the first slot on",
            with_arguments(length=lambda length: 0)),
    },
    write_places={
        "appends_at_length_of_first": Mutation("tokens of all items are appended at the length of the first item",
            with_arguments(positions=lambda positions: positions[:1] * len(positions))),
        "appends_to_one_page": Mutation("tokens beyond a page's end are written at its beginning",
            with_result(lambda places: (places[0][:, :1].expand_as(places[0]), places[1]))),
        "appends_at_page_start": Mutation("tokens are written from the first slot of the page on",
            with_result(_from_page_start)),
        "appends_to_logical_page": Mutation("tokens are written to the page of the table's index",
            lambda positions, table, size: (torch.stack(positions) // size + 0 * table[:, :1].long()
                if table.shape[1] > 1 else Cached.write_places(positions, table, size)[0],
                Cached.write_places(positions, table, size)[1])),
    },
    append_keys={"appends_8_tokens_at_most": Mutation("new keys beyond the eighth of an item are not appended",
        with_arguments(places=lambda places: (places[0][:, :8], places[1][:, :8]), new=lambda new: new[:, :8]))},
    lengths={
        "all_lengths_are_the_longest": Mutation("all items have the largest length",
            with_result(lambda lengths: [max(lengths)] * len(lengths))),
        "all_lengths_are_the_first": Mutation("all items have the length of the first",
            with_result(lambda lengths: lengths[:1] * len(lengths))),
    },
    totals={
        "attends_before_new_tokens": Mutation("the new tokens are not attended to",
            lambda lengths, added, size: lengths),
        "counts_new_tokens_twice": Mutation("lengths before the append are taken for those after it",
            lambda lengths, added, size: [length + 2 * added for length in lengths]),
        "one_key_less": Mutation("the last key is not attended to: lengths are taken as their last index",
            lambda lengths, added, size: [max(length + added - 1, 0) for length in lengths],
            "vllm pull 936 and others"),
        "one_key_more": Mutation("the slot behind the last key is attended to", lambda lengths, added, size:
            [length + added + 1 for length in lengths], "seqlens_k of GroupQueryAttention is the total less one"),
        "last_page_is_full": Mutation("the last page is attended to as if it were full",
            lambda lengths, added, size: [-(-(length + added) // size) * size for length in lengths],
            "sglang-jax pull 1557"),
    },
    read_positions={
        "forgets_part_of_last_page": Mutation("a last page that is not full is not read",
            with_result(lambda positions, size:
            positions[: len(positions) // size * size] if len(positions) > size else positions)),
        "ends_at_512": Mutation("keys beyond the 512th are not read", with_result(lambda positions:
            positions[:512])),
        "drops_ragged_tile": Mutation("keys beyond the last whole tile of 64 are not read", with_result(
            lambda positions: positions[: len(positions) // 64 * 64] if len(positions) > 64 else positions)),
    },
    read_places={
        "ends_pages_at_128": Mutation("slots of a page beyond the 128th repeat it", with_result(
            lambda places, table: (places[0], places[1].clamp_max(127)) if table.shape[1] > 1 else places)),
        "reads_shared_pages_once": Mutation("the first page of the item before is read by it alone", _unshared),
        "reads_pages_of_first_item": Mutation("all items read the pages of the first",
            with_arguments(item=lambda item, table: 0 if table.shape[1] > 1 else item)),
        "reads_pages_of_next_item": Mutation("items read the slots of the next one",
            with_arguments(item=lambda item, table: (item + 1) % len(table))),
        "takes_pages_of_16": Mutation("pages are taken to have 16 slots, whatever the pool's shape",
            with_arguments(size=lambda size, table: 16 if table.shape[1] > 1 else size)),
    },
    table={"ignores_block_table": Mutation("pages are read and written in the pool's order",
        with_result(lambda table, block_table:
        table if block_table is None else torch.arange(table.numel()).view_as(table)))},
    attend={
        "scale_is_absolute": Mutation("the sign of the scale is lost",
            _with(lambda options: {"scale": options["scale"] and abs(options["scale"])})),
        "causal_upper_left": Mutation("positions of queries count from the first key",
            _aligned(causal="upper_left", window="upper_left"),
            "flash-attention before 2.1; onnxruntime issue 29020"),
        "all_queries_at_the_last": Mutation("all new tokens are at the position of the last",
            _moved(lambda rows, item, totals: torch.full_like(rows, len(rows) - 1), "causal", "window")),
        "aligned_at_the_longest": Mutation("positions of queries count from the end of the longest item",
            _moved(lambda rows, item, totals: rows + max(totals) - item.keys.stop, "causal", "window")),
        "always_causal": Mutation("is_causal=False is ignored", _with(lambda options: {"is_causal": True})),
        "causal_without_window": Mutation("a window switches is_causal off",
            _with(lambda options: {"is_causal": options["is_causal"] and options["window"] is None})),
        "window_of_first_query": Mutation("all queries have the window of the first",
            _moved(lambda rows, item, totals: torch.zeros_like(rows), "window")),
        "window_from_first_key": Mutation("windows count positions from the first key",
            _aligned(window="upper_left"), "jax.nn.dot_product_attention"),
    },
)  # fmt: skip


def _rounded(numbers: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    """Vectors of int8 caches, rounded to the query's dtype."""
    return (numbers * scales).to(dtype).to(numbers.dtype)


def variants() -> list[Variant]:
    """Correct implementations in other orders and precisions."""
    in_tiles = Cached(attend=lambda item, totals: item.computed(Tiled()), dequantise=_rounded)
    return [
        *(
            Variant(name, f"each item: {says}", Cached(attend=lambda item, totals, own=own: item.computed(own)))
            for name, (says, own) in WITH_LSE.items()
        ),
        Variant("tiled", "each item in tiles, with an online softmax", in_tiles),
        Variant("float64", "each item in float64", Cached(wide=lambda query: torch.float64)),
    ]
