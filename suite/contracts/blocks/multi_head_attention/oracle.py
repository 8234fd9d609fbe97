"""The slow, obvious answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from suite.contracts.steps.attention_scores.oracle import scaled_dot
from suite.judging.rounded import Rounded

Array = np.ndarray[Any, Any]


def multi_head_attention(
    query: Rounded,
    key: Rounded,
    value: Rounded,
    w_query: Rounded,
    w_key: Rounded,
    w_value: Rounded,
    *,
    num_heads: int,
    w_output: Rounded | None = None,
    b_query: Rounded | None = None,
    b_key: Rounded | None = None,
    b_value: Rounded | None = None,
    b_output: Rounded | None = None,
    attn_mask: Array | None = None,
    is_causal: bool = False,
    dropout_p: float = 0.0,
    kept: Array | None = None,
) -> Rounded:
    """The heads side by side, b l c, or mapped, b l o. Which weights dropout kept, b h l s, must be told."""
    queries = split(mapped(query, w_query, b_query), num_heads)  # b h l p
    keys = split(mapped(key, w_key, b_key), num_heads)  # b h s p
    values = split(mapped(value, w_value, b_value), num_heads)  # b h s v
    scores = scaled_dot(queries, keys)  # b h l s
    allowed = np.broadcast_to(True if attn_mask is None else attn_mask, scores.shape)
    if is_causal:
        allowed = allowed & np.tril(np.ones(scores.shape[-2:], dtype=bool))
    if not dropout_p:
        heads = scores.attend(values, allowed)  # b h l v
    else:
        heads = dropped(scores.softmax(allowed), dropout_p, kept) @ values
    merged = heads.each(lambda array: np.concatenate(list(array.swapaxes(0, 1)), -1))  # b l c
    return merged if w_output is None else mapped(merged, w_output, b_output)


def mapped(x: Rounded, weights: Rounded, bias: Rounded | None) -> Rounded:
    """A linear map, with a bias where there is one."""
    return x @ weights if bias is None else x.affine(weights, bias)


def split(x: Rounded, heads: int) -> Rounded:
    """Each head's columns, b l (h p) as b h l p."""
    return x.each(lambda array: np.stack(np.split(array, heads, axis=-1), axis=1))


def dropped(weights: Rounded, p: float, kept: Array | None) -> Rounded:
    """The weights after dropout; p = 1 keeps none."""
    if p == 1:
        return weights.each(np.zeros_like)
    assert kept is not None
    return weights.each(lambda array: np.where(kept, array, 0)) * (1 / (1 - p))
