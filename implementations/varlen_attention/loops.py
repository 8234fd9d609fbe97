"""Packed items one after the other, each as nested loops over Python floats."""

from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations.attention import loops
from attnsuite.implementations.varlen_attention._items import Item, Window, check_inputs, packed


@implementation(lacks={"large": "nested Python loops: a pair of tokens costs microseconds"})
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
        inputs, others = (item.query, item.key, item.value), {"softcap": softcap, "sinks": sinks}
        return loops.attention(*inputs, attn_mask=item.mask, scale=scale, enable_gqa=item.grouped, **others)

    return packed(attend, query, key, value, cu_seqlens_q, cu_seqlens_k, is_causal, window)
