"""One query of one head at a time, over the slots that it sees, found one by one through the block table."""

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations.kv_cache_attention._caches import factor, quantised, reach, vectors, wide_dtype
from attnsuite.implementations.kv_cache_attention._checks import Window, check


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
    size, groups = key_cache.shape[1], query.shape[2] // max(key_cache.shape[2], 1)
    before, after = reach(is_causal, window)
    output = torch.zeros_like(query, memory_format=torch.contiguous_format)
    for item, length in enumerate(lengths):
        total = length + (0 if key is None else query.shape[1])
        row = [item] if block_table is None else block_table[item].tolist()
        places = [(row[slot // size], slot % size) for slot in range(total)]
        if key is not None and value is not None:
            for token, (page, slot) in enumerate(places[length:]):
                for cache, of_cache, new in zip(caches, scales, (key, value), strict=True):
                    if of_cache is None:
                        cache[page, slot] = new[item, token]
                    else:
                        cache[page, slot], of_cache[page, slot] = quantised(new[item, token])
        for token in range(query.shape[1]):
            position = total - query.shape[1] + token
            seen = [place for slot, place in enumerate(places) if position - before <= slot <= position + after]
            for head in range(query.shape[2]):
                keys, values = (
                    _vectors(*pair, seen, head // groups, query.dtype) for pair in zip(caches, scales, strict=True)
                )
                if seen:
                    scores = keys @ query[item, token, head].to(keys.dtype) * factor(scale, query.shape[3])
                    output[item, token, head] = scores.softmax(0) @ values
    return output


def _vectors(
    cache: Tensor, scales: Tensor | None, places: list[tuple[int, int]], head: int, dtype: torch.dtype
) -> Tensor:
    """The vectors of a head at these pages and slots, t e."""
    pages, slots = (torch.tensor(part, dtype=torch.int64) for part in zip(*places, strict=True)) if places else ((), ())
    of_places = None if scales is None else scales[pages, slots, head]
    return vectors(cache[pages, slots, head], of_places, wide_dtype(dtype))
