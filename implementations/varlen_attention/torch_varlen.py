"""PyTorch's `varlen_attn`: FlashAttention's kernel for packed items, on CUDA in half types."""

from torch import Tensor
from torch.nn.attention.varlen import varlen_attn

from attnsuite import implementation
from attnsuite.implementations.varlen_attention._items import Window, band, check_inputs


@implementation(
    lacks={
        "cpu": "torch.nn.attention.varlen runs on CUDA alone",
        "float32": "FlashAttention has kernels for float16 and bfloat16 alone",
        "float64": "FlashAttention has kernels for float16 and bfloat16 alone",
        "value_width": "values are as wide as keys",
    }
)
def varlen_attention(
    query: Tensor,  # q h e
    key: Tensor,  # k g e
    value: Tensor,  # k g e
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    *,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    scale: float | None = None,
    is_causal: bool = False,
    window: Window | None = None,
) -> Tensor:  # q h e
    """Return the attention of each item within itself; aligned at the lower right.

    Raises ValueError, before any work, for inputs that the contract does not define.
    """
    check_inputs(query, key, value, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, window)
    longest = (int(ends.diff().max()) for ends in (cu_seqlens_q, cu_seqlens_k))
    most = (known or own for known, own in zip((max_seqlen_q, max_seqlen_k), longest, strict=True))
    left, right = (-1 if side is None else side for side in band(is_causal, window))
    lengths = cu_seqlens_q, cu_seqlens_k, *most
    grouped = query.shape[1] != key.shape[1]
    output = varlen_attn(query, key, value, *lengths, scale=scale, window_size=(left, right), enable_gqa=grouped)
    assert isinstance(output, Tensor)
    return output
