"""Two batched products over the caches of all items, behind one mask: what frameworks do without a kernel.

Pages are gathered into a dense cache first. Slots that are not written count as zeros, since 0 · NaN is NaN.
"""

import math

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations.kv_cache_attention._caches import append_pair, dense, factor, reach, vectors, wide_dtype
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
    lengths = append_pair(caches, scales, (key, value), lengths, block_table)
    longest = max(lengths, default=0)
    if not longest or not query.numel():
        return torch.zeros_like(query, memory_format=torch.contiguous_format)
    totals = torch.tensor(lengths, device=query.device)[:, None]  # b 1
    slots = torch.arange(longest, device=query.device)
    wide, written = wide_dtype(query.dtype), slots < totals  # b s
    keys, values = (
        vectors(*(tensor if tensor is None else dense(tensor, longest, block_table) for tensor in pair), wide)
        for pair in zip(caches, scales, strict=True)
    )  # b s g e
    if not bool(written.all()):
        keys, values = (cache.masked_fill(~written[..., None, None], 0.0) for cache in (keys, values))
    by_group = query.to(wide).unflatten(2, (keys.shape[2], -1)).permute(0, 2, 3, 1, 4)  # b g r l e
    queries = by_group.flatten(2, 3) * factor(scale, query.shape[3])  # b g rl e
    scores = (queries @ keys.permute(0, 2, 3, 1)).view(*by_group.shape[:4], longest)  # b g r l s
    positions = totals - query.shape[1] + torch.arange(query.shape[1], device=query.device)  # b l
    behind = slots - positions[..., None]  # b l s
    before, after = reach(is_causal, window)
    seen = ((behind >= -before) & (behind <= after) & written[:, None])[:, None, None]  # b 1 1 l s
    weights = scores.masked_fill(~seen, -math.inf).softmax(-1).masked_fill(~seen.any(-1, keepdim=True), 0.0)
    mixed = weights.flatten(2, 3) @ values.transpose(1, 2)  # b g rl e
    output: Tensor = mixed.view(by_group.shape).permute(0, 3, 1, 2, 4).flatten(2, 3).to(query.dtype)  # b l h e
    return output.contiguous()
