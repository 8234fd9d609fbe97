"""Additive attention as batched operations in PyTorch."""

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations._checks import check_axes, check_mask


@implementation
def additive_attention(
    query: Tensor,  # b l q
    key: Tensor,  # b s k
    value: Tensor,  # b s v
    w_query: Tensor,  # q e
    w_key: Tensor,  # k e
    w_score: Tensor,  # e
    *,
    attn_mask: Tensor | None = None,  # broadcastable to b l s, True = may attend
) -> Tensor:
    """Return softmax(tanh(query w_query + key w_key) · w_score) value, of shape b l v and the query's dtype.

    Raises ValueError, before any work, for inputs that the formula does not define.
    """
    dtype, maps = query.dtype, {"w_query": (w_query, "q e"), "w_key": (w_key, "k e"), "w_score": (w_score, "e")}
    sizes = check_axes(query=(query, "b l q"), key=(key, "b s k"), value=(value, "b s v"), **maps)
    check_mask(attn_mask, (sizes["b"], sizes["l"], sizes["s"]))
    for tensor in (key, value, w_query, w_key, w_score):
        if tensor.dtype != dtype:
            raise ValueError(f"tensors are of {dtype} and {tensor.dtype}, expected one dtype")
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    query, key, value, w_query, w_key, w_score = (t.to(wide) for t in (query, key, value, w_query, w_key, w_score))
    features = ((query @ w_query).unsqueeze(2) + (key @ w_key).unsqueeze(1)).tanh()  # b l s e
    scores = features @ w_score  # b l s
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -torch.inf)
        empty = ~attn_mask.expand_as(scores).any(-1, keepdim=True)  # b l 1
        return (scores.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0) @ value).to(dtype)
    return (scores.softmax(-1) @ value).to(dtype)
