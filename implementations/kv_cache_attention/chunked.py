"""Each item's cache is read once, in chunks with an online softmax; slots that no query sees are not read.

Memory does not grow with the cache, and time only with the slots that lengths and window leave. "FlashDecoding" reads
chunks in parallel and merges them; here they follow each other, and products of a chunk use PyTorch's threads.
"""

import math
from typing import Any

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations.kv_cache_attention._caches import append_pair, factor, reach, vectors, wide_dtype
from attnsuite.implementations.kv_cache_attention._checks import Window, check

CHUNK = 1024
"""Slots of a chunk, at least one page: keys and values of 8 heads of width 64 take 4 MiB, as much as an L2 cache."""


@implementation
def kv_cache_attention(
    query: Tensor,  # b l h e
    key_cache: Tensor,  # b s g e, or p z g e with a block_table
    value_cache: Tensor,
    cache_seqlens: Tensor,  # b
    *,
    key: Tensor | None = None,  # b l g e
    value: Tensor | None = None,
    block_table: Tensor | None = None,  # b m
    key_scales: Tensor | None = None,  # b s g, or p z g: the caches are int8
    value_scales: Tensor | None = None,
    is_causal: bool = True,
    window: Window | None = None,
    scale: float | None = None,
) -> Tensor:
    """Append key and value to the caches, and return the attention of the queries, b l h e.

    Raises ValueError, before any work, for inputs that the contract does not define.
    """
    caches, scales = (key_cache, value_cache), (key_scales, value_scales)
    lengths = check(query, key_cache, value_cache, cache_seqlens, key, value, block_table, window, scales)
    lengths = append_pair(caches, scales, (key, value), lengths, block_table)
    output = torch.zeros_like(query, memory_format=torch.contiguous_format)
    for item, total in enumerate(lengths if query.numel() else ()):
        row = None if block_table is None else block_table[item].long()
        of_item = [tensor if row is not None or tensor is None else tensor[item] for tensor in (*caches, *scales)]
        _attend(query[item], of_item, row, total, reach(is_causal, window), scale, output[item])
    return output


def _attend(
    query: Tensor,  # l h e
    caches: list[Any],  # keys and values, s g e or p z g e, and their scales, s g or p z g, or None
    row: Tensor | None,  # m
    total: int,
    reaches: tuple[float, float],
    scale: float | None,
    output: Tensor,  # l h e
) -> None:
    """The attention of one item, written to the output."""
    wide, (before, after), tokens = wide_dtype(query.dtype), reaches, query.shape[0]
    grouped = query.unflatten(1, (caches[0].shape[-2], -1)).permute(1, 2, 0, 3)  # g r l e
    queries = grouped.flatten(1, 2).to(wide) * factor(scale, query.shape[2])  # g rl e
    positions = torch.arange(total - tokens, total, device=query.device)[:, None]  # l 1
    first, last = int(max(total - tokens - before, 0)), int(min(total + after, total))
    size = caches[0].shape[1] if row is not None else 1
    step = max(CHUNK // size, 1) * size
    largest = queries.new_full((*queries.shape[:2], 1), torch.finfo(wide).min)  # finite: −∞ − −∞ is NaN
    sums, mixed = torch.zeros_like(largest), torch.zeros_like(queries)
    for start in range(first // size * size, last, step):
        stop = min(start + step, last)
        parts = [None if cache is None else _part(cache, row, start, stop) for cache in caches]
        keys, values = (vectors(*pair, wide).transpose(0, 1) for pair in (parts[::2], parts[1::2]))  # g t e
        scores = queries @ keys.mT  # g rl t
        offset = torch.arange(start, stop, device=query.device) - positions  # l t
        hidden = (offset < -before) | (offset > after)
        if bool(hidden.any()):
            hidden = hidden.repeat(grouped.shape[1], 1)  # rl t
            scores = scores.masked_fill(hidden, -math.inf)
        now = torch.maximum(largest, scores.amax(-1, keepdim=True))
        shrink, powers = (largest - now).exp(), (scores - now).exp()
        sums = sums * shrink + powers.sum(-1, keepdim=True)
        mixed = torch.baddbmm(mixed * shrink, powers, values)
        largest = now
    mixed = mixed / sums.masked_fill(sums == 0, 1.0)
    output.copy_(mixed.view(grouped.shape).permute(2, 0, 1, 3).flatten(1, 2))


def _part(cache: Tensor, row: Tensor | None, start: int, stop: int) -> Tensor:
    """Slots of one item, t g e or t g: a view of a dense cache; of pages a copy, unless one page has them."""
    if row is None:
        return cache[start:stop]
    size = cache.shape[1]
    pages = row[start // size : -(-stop // size)]
    return (cache[int(pages[0])] if len(pages) == 1 else cache[pages].flatten(0, 1))[: stop - start]
