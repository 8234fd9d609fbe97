"""Attention as the plain dense formula in PyTorch: the baseline that every other implementation is compared with."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations.attention._checks import check_inputs, check_window


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
) -> Tensor:
    """Return dropout(softmax(scale · query keyᵀ + mask)) value, of shape ... h l v and the query's dtype.

    Products of bfloat16 are products of bfloat16, as a GPU's tensor cores compute them. Those of float16 are computed
    in float32: scores, and products of output gradients and values, may leave float16's range, which ends at 65,504.
    Query i sees keys i − left to i + right of a window, both included. Raises ValueError, before any work, for inputs
    that the formula does not define.
    """
    check_inputs(query, key, value, attn_mask, dropout_p, enable_gqa)
    check_window(window)
    dtype = query.dtype
    wide = torch.float32 if dtype == torch.float16 else dtype
    query, key, value = query.to(wide), key.to(wide), value.to(wide)
    if query.dim() > 2 and query.shape[-3] != key.shape[-3]:
        group = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(group, dim=-3), value.repeat_interleave(group, dim=-3)  # ... h s e|v
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1])

    scores = (scale * query) @ key.transpose(-1, -2)  # ... h l s
    if is_causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(diagonal=1)  # l s
        scores = scores.masked_fill(future, -math.inf)
    if window is not None:
        scores = scores.masked_fill(_outside(scores, *window), -math.inf)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask.to(wide)
    if attn_mask is None and window is None:
        weights = scores.softmax(dim=-1)
    else:
        # A softmax over nothing is NaN, and so is its gradient: keep both out before and after.
        empty_row = (scores == -math.inf).all(dim=-1, keepdim=True)  # ... l 1
        weights = scores.masked_fill(empty_row, 0.0).softmax(dim=-1).masked_fill(empty_row, 0.0)  # ... h l s
    if dropout_p > 0:
        weights = torch.nn.functional.dropout(weights, dropout_p)
    return (weights @ value).to(dtype)  # ... h l v


def _outside(scores: Tensor, left: int | None, right: int | None) -> Tensor:
    """True for a key that the window hides from a query, l s."""
    ones = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
    before = torch.zeros_like(ones) if left is None else ones.tril(diagonal=-left - 1)
    return before if right is None else before | ones.triu(diagonal=right + 1)
