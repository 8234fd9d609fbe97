"""Attentions that are wrong where features meet, in ways that nobody has a name for."""

import math
import os
import signal

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


def crashes_beyond_32_keys(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The process ends beyond 32 keys."""
    if key.shape[-2] > 32:
        os.kill(os.getpid(), signal.SIGSEGV)
    return scaled_dot_product_attention(query, key, value)


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


def takes_one_length(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Its scores have as many columns as rows."""
    scores = (query @ key.mT / math.sqrt(query.shape[-1])).view(*query.shape[:-1], query.shape[-2])
    return scores.softmax(-1) @ value


def unscaled_and_future(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    """Two mistakes: no scale, and one key of the future."""
    scores = query @ key.mT
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(2) > 0, -math.inf)
    return scores.softmax(-1) @ value


def second_item_is_zero(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Every second item is lost."""
    output = scaled_dot_product_attention(query, key, value).clone()
    if output.dim() == 4:
        output[1::2] = 0
    return output


def drops_always(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Nobody has switched dropout off."""
    return scaled_dot_product_attention(query, key, value, dropout_p=0.3)


def in_double(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    """Unscaled under is_causal, and in float64."""
    scale = 1.0 if is_causal else None
    return scaled_dot_product_attention(query, key, value, is_causal=is_causal, scale=scale).double()


def has_no_backward(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Its backward pass is missing."""
    return scaled_dot_product_attention(query.detach(), key.detach(), value.detach())


def loses_gradients_of_groups(
    query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False, enable_gqa: bool = False
) -> Tensor:
    """Grouped key heads get half of their gradient, as others do not."""
    if key.shape[-3] != query.shape[-3]:
        key = key / 2 + key.detach() / 2
    return scaled_dot_product_attention(query, key, value, is_causal=is_causal, enable_gqa=enable_gqa)


def nan_where_a_tile_is_hidden(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None) -> Tensor:
    """NaN in rows that may not attend to the first key; others are right, empty ones too."""
    output = scaled_dot_product_attention(query, key, value, attn_mask=attn_mask)
    if attn_mask is None or attn_mask.dtype != torch.bool:
        return output
    hidden = ~attn_mask[..., :1] & attn_mask.any(-1, keepdim=True)
    return output.masked_fill(hidden, math.nan)


SCALES: dict[int, float] = {}


def keeps_the_first_scale(query, key, value):
    """The scale of the first call with as many keys, whatever its width."""
    scale = SCALES.setdefault(key.shape[-2], query.shape[-1] ** -0.5)
    return (query @ key.mT * scale).softmax(-1) @ value
