"""Correct implementations of the contract `kv_cache_attention` in other styles."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import Variant
from attnsuite.cases.tensors import Array
from attnsuite.contracts.blocks.kv_cache_attention.computation import Cached
from attnsuite.contracts.blocks.kv_cache_attention.int8 import dequantised, quantised


def _options(query: Tensor, options: dict[str, Any]) -> tuple[bool, int | None, int | None, float]:
    left, right = options.get("window") or (None, None)
    scale = options.get("scale")
    return options.get("is_causal", True), left, right, 1 / math.sqrt(query.shape[-1]) if scale is None else scale


def _append(caches: tuple[Tensor, Tensor], lengths: Tensor, new: tuple[Tensor, Tensor] | None, table: Any) -> Tensor:
    """Write token by token, and return the lengths afterwards."""
    if new is None:
        return lengths
    size = caches[0].shape[1]
    for item, length in enumerate(lengths.tolist()):
        for token in range(new[0].shape[1]):
            page, slot = divmod(length + token, size)
            where = item if table is None else int(table[item, page])
            for cache, tokens in zip(caches, new, strict=True):
                cache[where, slot] = tokens[item, token]
    return lengths + new[0].shape[1]


def _new(options: dict[str, Any]) -> tuple[Tensor, Tensor] | None:
    return None if options.get("key") is None else (options["key"], options["value"])


def _visible(i: Tensor, j: Tensor, causal: bool, left: int | None, right: int | None) -> Tensor:
    seen = torch.ones(torch.broadcast_shapes(i.shape, j.shape), dtype=torch.bool)
    seen &= (j <= i) | (not causal)
    if left is not None:
        seen &= j >= i - left
    return seen if right is None else seen & (j <= i + right)


def pagewise(query: Tensor, key_cache: Tensor, value_cache: Tensor, cache_seqlens: Tensor, **options: Any) -> Tensor:
    """An online softmax over the pages of an item; a dense cache is read in parts of 5 slots."""
    table, (causal, left, right, scale) = options.get("block_table"), _options(query, options)
    totals = _append((key_cache, value_cache), cache_seqlens, _new(options), table)
    wide, size = Cached.wide(query), key_cache.shape[1] if table is not None else 5
    output = torch.zeros_like(query)
    for item, total in enumerate(totals.tolist()):
        queries = query[item].to(wide).transpose(0, 1) * scale  # h l e
        i = torch.arange(total - queries.shape[1], total)[:, None]
        largest = queries.new_full((*queries.shape[:2], 1), -math.inf)
        sums, mixed = torch.zeros_like(largest), torch.zeros_like(queries)
        for start in range(0, total, size):
            stop = min(start + size, total)
            place = (
                (item, slice(start, stop)) if table is None else (int(table[item, start // size]), slice(stop - start))
            )
            keys, values = (cache[place].to(wide).transpose(0, 1) for cache in (key_cache, value_cache))
            groups = queries.shape[0] // keys.shape[0]
            keys, values = keys.repeat_interleave(groups, 0), values.repeat_interleave(groups, 0)
            seen = _visible(i, torch.arange(start, stop), causal, left, right)
            scores = (queries @ keys.mT).masked_fill(~seen, -math.inf)
            now = torch.maximum(largest, scores.amax(-1, keepdim=True))
            finite = now.masked_fill(now == -math.inf, 0.0)
            shrink, powers = (largest - finite).exp(), (scores - finite).exp()
            sums, mixed, largest = sums * shrink + powers.sum(-1, keepdim=True), mixed * shrink + powers @ values, now
        output[item] = (mixed / sums.masked_fill(sums == 0, 1.0)).transpose(0, 1).to(query.dtype)
    return output


def by_row(query: Tensor, key_cache: Tensor, value_cache: Tensor, cache_seqlens: Tensor, **options: Any) -> Tensor:
    """Query by query, over the slots that it sees, in numpy and float64."""
    table, (causal, left, right, scale) = options.get("block_table"), _options(query, options)
    totals = _append((key_cache, value_cache), cache_seqlens, _new(options), table).tolist()
    output = torch.zeros_like(query)
    heads, size = np.arange(query.shape[2]), key_cache.shape[1]
    of_heads = heads // (len(heads) // max(key_cache.shape[2], 1) or 1)
    for item, row in np.ndindex(*query.shape[:2]):
        position = totals[item] - query.shape[1] + row
        first = 0 if left is None else max(position - left, 0)
        ends = [totals[item], *([position + 1] if causal else []), *([] if right is None else [position + right + 1])]
        slots = np.arange(first, max(min(ends), first))
        if len(slots):
            pages = torch.from_numpy(slots // size)
            place = (item if table is None else table[item].long()[pages], torch.from_numpy(slots % size))
            keys, values = (_numbers(cache[place])[:, of_heads] for cache in (key_cache, value_cache))  # t h e
            scores = np.einsum("the,he->ht", keys, _numbers(query[item, row])) * scale
            weights = np.exp(scores - scores.max(1, keepdims=True))
            mixed = np.einsum("ht,the->he", weights / weights.sum(1, keepdims=True), values)
            output[item, row] = torch.from_numpy(mixed).to(query.dtype)
    return output


def _numbers(tensor: Tensor) -> Array:
    return tensor.double().numpy()


def sdpa(query: Tensor, key_cache: Tensor, value_cache: Tensor, cache_seqlens: Tensor, **options: Any) -> Tensor:
    """PyTorch's scaled_dot_product_attention for each item, with a boolean mask."""
    table, (causal, left, right, scale) = options.get("block_table"), _options(query, options)
    totals = _append((key_cache, value_cache), cache_seqlens, _new(options), table)
    wide, output, size = Cached.wide(query), torch.zeros_like(query), key_cache.shape[1]
    for item, total in enumerate(totals.tolist()):
        if not total or not query.shape[1]:
            continue
        j = torch.arange(total)
        place = (item, j) if table is None else (table[item].long()[j // size], j % size)
        keys, values = (cache[place].to(wide).transpose(0, 1) for cache in (key_cache, value_cache))
        seen = _visible(torch.arange(total - query.shape[1], total)[:, None], j, causal, left, right)
        result = torch.nn.functional.scaled_dot_product_attention(
            (query[item].to(wide) * scale).transpose(0, 1), keys, values, seen, scale=1.0, enable_gqa=True
        )
        empty = ~seen.any(-1)[:, None, None]
        output[item] = result.transpose(0, 1).masked_fill(empty, 0.0).to(query.dtype)
    return output


def _floating(core: Callable[..., Tensor]) -> Any:
    """Dequantises int8 caches as a whole for a computation that knows of none."""

    def converted(query: Tensor, key_cache: Tensor, value_cache: Tensor, cache_seqlens: Tensor, **options: Any) -> Any:
        scales = options.pop("key_scales", None), options.pop("value_scales", None)
        if scales[0] is None:
            return core(query, key_cache, value_cache, cache_seqlens, **options)
        caches, new, table = [key_cache, value_cache], _new(options), options.get("block_table")
        if new is not None:
            numbers, of_numbers = zip(*map(quantised, new), strict=True)
            _append((key_cache, value_cache), cache_seqlens, numbers, table)
            cache_seqlens = _append(scales, cache_seqlens, of_numbers, table)
            options.pop("key"), options.pop("value")
        floating = [dequantised(*pair).to(query.dtype) for pair in zip(caches, scales, strict=True)]
        return core(query, *floating, cache_seqlens, **options)

    return Cached.validated(converted)


def variants() -> list[Variant]:
    """Correct implementations in other orders and precisions."""
    return [
        Variant("pagewise", "an online softmax over pages", _floating(pagewise)),
        Variant("by_row", "query by query, numpy in float64", _floating(by_row)),
        Variant("sdpa", "PyTorch's attention for each item", _floating(sdpa)),
    ]
