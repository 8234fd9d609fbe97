"""Attentions that are wrong where features meet, in ways that nobody has a name for."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attnsuite.registry import implementation


def causal_and_wide(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    """1 % too sharp under is_causal from width 9 on."""
    sharper = 1.01 if is_causal and query.shape[-1] > 8 else 1.0
    return scaled_dot_product_attention(query * sharper, key, value, is_causal=is_causal)


def wrong_gradient_of_value(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    """The gradient of the values is 3 % too large under is_causal."""
    if is_causal and value.requires_grad:
        value = value * 1
        value.register_hook(lambda gradient: gradient * 1.03)
    return scaled_dot_product_attention(query, key, value, is_causal=is_causal)


def loses_a_mask(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None) -> Tensor:
    """A sixth of a float mask is lost."""
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        attn_mask = attn_mask * (5 / 6)
    return scaled_dot_product_attention(query, key, value, attn_mask=attn_mask)


@implementation(conventions={"causal": "lower_right"})
def begins_at_the_first_key(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    """Causal is aligned at the first key, though the last one is declared."""
    return scaled_dot_product_attention(query, key, value, is_causal=is_causal)


def nan_beyond_32_keys(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """NaN beyond 32 keys."""
    output = scaled_dot_product_attention(query, key, value)
    return output * math.nan if key.shape[-2] > 32 else output


def raises_for_odd_widths(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Odd widths are refused."""
    if query.shape[-1] % 2:
        raise RuntimeError(f"the width {query.shape[-1]} is odd")
    return scaled_dot_product_attention(query, key, value)


def reads_keys_as_they_lie(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The key's strides are ignored, and its answer is a little off besides, so that it has no name."""
    if not key.is_contiguous():
        key = 1.1 * key.as_strided(key.shape, torch.empty(key.shape, device="meta").stride())
    return scaled_dot_product_attention(query, key, value)


def accepts_anything(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Lengths that differ are cut."""
    length = min(key.shape[-2], value.shape[-2])
    scores = query @ key[..., :length, :].mT / math.sqrt(query.shape[-1])
    return scores.softmax(-1) @ value[..., :length, :]


def unscaled_and_future(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    """Two mistakes: no scale, and one key of the future."""
    scores = query @ key.mT
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(2) > 0, -math.inf)
    return scores.softmax(-1) @ value
