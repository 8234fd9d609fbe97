"""Attention as the plain dense formula in PyTorch: the baseline that every other implementation is compared with."""

import math
from typing import Any

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations.attention._checks import check_inputs


@implementation(conventions={"repeated_calls": "equal_bits"})
def attention(
    query: Tensor,  # ... h l e
    key: Tensor,  # ... g s e
    value: Tensor,  # ... g s v
    *,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    window: tuple[int | None, int | None] | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,  # h
    return_lse: bool = False,
) -> Any:
    """Return dropout(softmax(scale · query keyᵀ + mask)) value, of shape ... h l v and the query's dtype.

    Products of bfloat16 are products of bfloat16, as a GPU's tensor cores compute them. Those of float16 are computed
    in float32: scores, and products of output gradients and values, may leave float16's range, which ends at 65,504.
    Query i sees keys i − left to i + right of a window, both included. A soft cap bounds the scaled scores. A sink adds
    its exponential to the sum of its head's. With `return_lse` the log-sum-exp, ... h l, is returned after the output.
    Raises ValueError, before any work, for inputs that the formula does not define.
    """
    check_inputs(query, key, value, attn_mask, dropout_p, enable_gqa, window, softcap, sinks)
    dtype = query.dtype
    wide = torch.float32 if dtype == torch.float16 else dtype
    query, key, value = query.to(wide), key.to(wide), value.to(wide)
    if query.dim() > 2 and query.shape[-3] != key.shape[-3]:
        group = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(group, dim=-3), value.repeat_interleave(group, dim=-3)  # ... h s e|v
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1])

    scores = (scale * query) @ key.transpose(-1, -2)  # ... h l s
    if softcap is not None:
        scores = softcap * (scores / softcap).tanh()
    if is_causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(diagonal=1)  # l s
        scores = scores.masked_fill(future, -math.inf)
    if window is not None:
        scores = scores.masked_fill(_outside(scores, *window), -math.inf)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask.to(wide)
    if sinks is not None:  # keys without a value
        columns = sinks.to(wide).view(-1, *[1] * min(query.dim() - 1, 2)).expand(*scores.shape[:-1], 1)  # ... h l 1
        scores = torch.cat([scores, columns], dim=-1)
    if attn_mask is None and window is None:
        weights = scores.softmax(dim=-1)
    else:
        # A softmax over nothing is NaN, and so is its gradient: keep both out before and after.
        empty_row = (scores == -math.inf).all(dim=-1, keepdim=True)  # ... l 1
        weights = scores.masked_fill(empty_row, 0.0).softmax(dim=-1).masked_fill(empty_row, 0.0)  # ... h l s
    if sinks is not None:
        weights = weights[..., :-1]
    if dropout_p > 0:
        weights = torch.nn.functional.dropout(weights, dropout_p)
    output = (weights @ value).to(dtype)  # ... h l v
    return (output, _log_sum_exp(scores)) if return_lse else output


def _log_sum_exp(scores: Tensor) -> Tensor:
    """The logarithm of the sum of the exponentials, ... h l, in float32 or wider."""
    empty_row = (scores == -math.inf).all(dim=-1)  # where its gradient would be NaN
    wide = scores.to(torch.float32 if scores.dtype.itemsize < 4 else scores.dtype)
    return wide.masked_fill(empty_row.unsqueeze(-1), 0.0).logsumexp(dim=-1).masked_fill(empty_row, -math.inf)


def _outside(scores: Tensor, left: int | None, right: int | None) -> Tensor:
    """True for a key that the window hides from a query, l s."""
    ones = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
    before = torch.zeros_like(ones) if left is None else ones.tril(diagonal=-left - 1)
    return before if right is None else before | ones.triu(diagonal=right + 1)
