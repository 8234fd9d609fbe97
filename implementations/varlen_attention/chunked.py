"""Packed items in chunks of queries and keys; rows that lengths, causal masks and windows hide are not read."""

from typing import Any

from torch import Tensor
from torch.nn.functional import pad

from attnsuite import implementation
from attnsuite.implementations.attention import chunked
from attnsuite.implementations.varlen_attention._items import Item, Window, check_inputs, packed


@implementation
def varlen_attention(
    query: Tensor,  # q h e
    key: Tensor,  # k g e
    value: Tensor,  # k g v
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    *,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    scale: float | None = None,
    is_causal: bool = False,
    window: Window | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,  # h
) -> Tensor:  # q h v
    """Return the attention of each item within itself; aligned at the lower right, as FlashAttention.

    Raises ValueError, before any work, for inputs that the contract does not define.
    """
    check_inputs(query, key, value, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, window)

    def attend(item: Item) -> Tensor:
        return _within_band(item, scale=scale, softcap=softcap, sinks=sinks)

    return packed(attend, query, key, value, cu_seqlens_q, cu_seqlens_k, is_causal, window)


def _within_band(item: Item, **options: Any) -> Tensor:
    """The output of an item, h l v, from the queries that see a key and the keys that a query sees."""
    query, key, value, first, last = item
    blind = min(0 if last is None else max(-last, 0), query.shape[1])  # leading queries that see nothing
    unseen = min(0 if first is None else max(first + blind, 0), key.shape[1])  # leading keys that none of the rest sees
    shift = blind - unseen
    window = None if first is None else -(first + shift), None if last is None else last + shift
    inputs = query[:, blind:], key[:, unseen:], value[:, unseen:]
    output: Tensor = chunked.attention(*inputs, enable_gqa=item.grouped, window=window, **options)
    return output if not blind else pad(output, (0, 0, blind, 0))
