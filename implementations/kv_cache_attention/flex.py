"""FlexAttention over a pool of pages: PyTorch's experimental `PagedAttention` translates the mask; uncompiled."""

import torch
from torch import Tensor
from torch.nn.attention import flex_attention as flex
from torch.nn.attention.experimental._paged_attention import PagedAttention
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from attnsuite import implementation
from attnsuite.implementations.kv_cache_attention._caches import append_pair, reach
from attnsuite.implementations.kv_cache_attention._checks import Window, check

flex._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True  # PyTorch would trace the functions for each new shape, in seconds


@implementation(
    variant="eager",
    lacks={
        "cuda": "not tried: on a GPU FlexAttention is meant to be compiled",
        "nan_unwritten": "weights of 0 are multiplied by all numbers of the pool",
    },
)
def kv_cache_attention(
    query: Tensor,  # b l h e
    key_cache: Tensor,  # b s g e, or p z g e with a block_table
    value_cache: Tensor,
    cache_seqlens: Tensor,  # b
    *,
    key: Tensor | None = None,  # b l g e
    value: Tensor | None = None,
    block_table: Tensor | None = None,  # b m
    is_causal: bool = True,
    window: Window | None = None,
    scale: float | None = None,
) -> Tensor:
    """FlexAttention over a pool of pages, with the mask of PyTorch's experimental `PagedAttention`; uncompiled.

    A dense cache is a pool with one page for each item. Every query has a score for every slot of the pool.
    Raises ValueError, before any work, for inputs that the contract does not define.
    """
    lengths = check(query, key_cache, value_cache, cache_seqlens, key, value, block_table, window)
    lengths = append_pair((key_cache, value_cache), (None, None), (key, value), lengths, block_table)
    if not max(lengths, default=0) or not query.numel():
        return torch.zeros_like(query, memory_format=torch.contiguous_format)
    table = torch.arange(len(query))[:, None] if block_table is None else block_table
    mask = _mask(key_cache, table.long(), lengths, query.shape[1], *reach(is_causal, window))
    keys, values = (cache.flatten(0, 1).transpose(0, 1)[None] for cache in (key_cache, value_cache))  # 1 g pz e
    grouped = query.shape[2] != key_cache.shape[2]
    output = flex_attention(query.transpose(1, 2), keys, values, None, mask, scale, grouped)
    assert isinstance(output, Tensor)
    return output.transpose(1, 2).contiguous()


def _mask(cache: Tensor, table: Tensor, lengths: list[int], queries: int, before: float, after: float) -> BlockMask:
    """The mask of the slots of the pool, from that of each item's positions."""
    pool, size = cache.shape[:2]
    counts = [-(-length // size) for length in lengths]
    pages = PagedAttention(pool, size, len(lengths), "cpu")
    pages.page_table = table[:, : max(counts)].clamp(0, pool - 1)  # entries beyond an item's end may be any number
    for item, count in enumerate(counts):
        pages.physical_to_logical[item, pages.page_table[item, :count]] = torch.arange(count)
    totals = torch.tensor(lengths)

    def seen(item: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        behind = column - (totals[item] - queries + row)
        return (behind >= -before) & (behind <= after)

    logical = create_block_mask(seen, len(lengths), None, queries, max(counts) * size, "cpu", BLOCK_SIZE=(128, size))
    return pages.convert_logical_block_mask(logical, kv_len=totals)
