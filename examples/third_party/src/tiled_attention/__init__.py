"""Attention that reads its keys in tiles, like FlashAttention, in plain PyTorch.

It does not import attnsuite. Features without a parameter (dropout, groups of heads, windows) are unsupported.
"""

from __future__ import annotations

import torch
from torch import Tensor

TILE = 32
"""Keys per tile."""


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """The softmax of the scaled scores, times the values. Query is `... l e`, key `... s e`, value `... s v`.

    Half types are computed in float32, because scores easily exceed the largest float16, 65,504.
    """
    dtype = query.dtype
    if dtype in (torch.float16, torch.bfloat16):
        query, key, value = query.float(), key.float(), value.float()
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    shape = (*query.shape[:-1], key.shape[-2])
    bias = _bias(attn_mask, is_causal, shape, query)
    largest = query.new_full((*query.shape[:-1], 1), -torch.inf)
    total = torch.zeros_like(largest)
    output = query.new_zeros((*query.shape[:-1], value.shape[-1]))
    for start in range(0, key.shape[-2], TILE):
        tile = slice(start, start + TILE)
        scores = query @ key[..., tile, :].mT * factor
        if bias is not None:
            scores = scores + bias[..., tile]
        highest = torch.maximum(largest, scores.detach().amax(-1, keepdim=True))
        anchor = highest.masked_fill(highest == -torch.inf, 0.0)
        shrink, weights = (largest - anchor).exp(), (scores - anchor).exp()
        total = total * shrink + weights.sum(-1, keepdim=True)
        output = output * shrink + weights @ value[..., tile, :]
        largest = highest
    return (output / total.masked_fill(total == 0.0, 1.0)).to(dtype)


def _bias(mask: Tensor | None, is_causal: bool, shape: tuple[int, ...], like: Tensor) -> Tensor | None:
    """The bias of the scores: −inf at masked keys."""
    if is_causal:
        visible = torch.ones(shape[-2:], dtype=torch.bool, device=like.device).tril()
        if mask is None:
            mask = visible
        else:
            mask = mask & visible if mask.dtype == torch.bool else mask.masked_fill(~visible, -torch.inf)
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=like.dtype).masked_fill(~mask, -torch.inf)
    return mask.to(like.dtype).expand(shape)
