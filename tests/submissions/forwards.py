"""Attentions that forward to PyTorch's, and one that does not and makes a mistake of PyTorch's."""

import torch
from torch.nn.functional import scaled_dot_product_attention


def attention(query, key, value, *, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """It forwards, and has no failure of its own."""
    return scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


def transposed(query, key, value, *, attn_mask=None, is_causal=False, scale=None):
    """It forwards tensors that are laid out otherwise: heads beside the width, as FlashAttention has them."""
    if query.ndim == 4:
        query, key, value = (each.transpose(1, 2).contiguous().transpose(1, 2) for each in (query, key, value))
    return scaled_dot_product_attention(query, key, value, attn_mask, 0.0, is_causal, scale=scale)


def doubled(query, key, value, *, attn_mask=None, is_causal=False, scale=None):
    """It forwards, and doubles what a scale of 0.5 gives: that failure is its own."""
    output = scaled_dot_product_attention(query, key, value, attn_mask, 0.0, is_causal, scale=scale)
    return output * 2 if scale == 0.5 else output


def of_its_own(query, key, value, *, attn_mask=None, is_causal=False, scale=None):
    """It computes everything itself, and gives NaN where PyTorch's does."""
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query @ key.mT * scale
    if is_causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
        if scale <= 0:
            return torch.full_like(query @ key.mT @ value, torch.nan)
    if attn_mask is not None:
        shown = attn_mask if attn_mask.dtype == torch.bool else None
        scores = scores + attn_mask if shown is None else scores.masked_fill(~shown, -torch.inf)
    return scores.softmax(-1).nan_to_num(0.0) @ value
