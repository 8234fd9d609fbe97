"""Multi-head attention with one matrix per role, whose columns are split into heads that are computed at once.

Any implementation of the contract `attention` can be the backend of the heads. It gets views in the query's dtype, and
only the arguments that a call needs.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations._attention_weights import attention_weights
from attnsuite.implementations.multi_head_attention._checks import check


@implementation
def multi_head_attention(
    query: Tensor,  # b l q
    key: Tensor,  # b s k
    value: Tensor,  # b s v
    w_query: Tensor,  # q d
    w_key: Tensor,  # k d
    w_value: Tensor,  # v c
    *,
    w_output: Tensor | None = None,  # c o
    b_query: Tensor | None = None,  # d
    b_key: Tensor | None = None,  # d
    b_value: Tensor | None = None,  # c
    b_output: Tensor | None = None,  # o
    num_heads: int,
    attn_mask: Tensor | None = None,  # broadcastable to l s or to b h l s, True = may attend
    is_causal: bool = False,
    dropout_p: float = 0.0,
    attention: Callable[..., Tensor] | None = None,
    need_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the heads side by side, b l c, or mapped by w_output, b l o, in the query's dtype.

    With `need_weights` a pair: that, and the weights of all heads before dropout, b h l s.
    Raises ValueError, before any work, for inputs that the formula does not define.
    """
    inputs = {"query": query, "key": key, "value": value}
    weights = {"w_query": w_query, "w_key": w_key, "w_value": w_value, "w_output": w_output}
    biases = {"b_query": b_query, "b_key": b_key, "b_value": b_value, "b_output": b_output}
    check(inputs, weights, biases, num_heads, attn_mask, is_causal, dropout_p)
    dtype = query.dtype
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype

    def mapped(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
        return x.to(wide) @ weights.to(wide) + (0.0 if bias is None else bias.to(wide))

    def split(x: Tensor) -> Tensor:
        return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)  # b h n p

    roles = ((query, w_query, b_query), (key, w_key, b_key), (value, w_value, b_value))
    heads = [split(mapped(*role)) for role in roles]
    options: dict[str, Any] = {"attn_mask": attn_mask} if attn_mask is not None else {}
    options |= {"is_causal": True} if is_causal else {}
    options |= {"dropout_p": dropout_p} if dropout_p else {}
    if attention is not None:
        heads = [head.to(dtype) for head in heads]
    attend = attention or _attention
    mixed = attend(*heads, **options)  # b h l v
    merged = mixed.transpose(1, 2).flatten(2)  # b l c
    output = (merged if w_output is None else mapped(merged, w_output, b_output)).to(dtype)
    if not need_weights:
        return output
    options.pop("dropout_p", None)
    return output, attention_weights(attend, *heads, **options).to(dtype)


def _attention(
    query: Tensor,  # b h l p
    key: Tensor,  # b h s p
    value: Tensor,  # b h s v
    *,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    dropout_p: float = 0.0,
) -> Tensor:
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])  # b h l s
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is None:
        weights = scores.softmax(dim=-1)
    else:
        # A softmax over nothing is NaN: keep it out before and after.
        empty_row = ~attn_mask.any(dim=-1, keepdim=True)
        scores = scores.masked_fill(~attn_mask, -math.inf).masked_fill(empty_row, 0.0)
        weights = scores.softmax(dim=-1).masked_fill(empty_row, 0.0)
    return torch.nn.functional.dropout(weights, dropout_p) @ value
