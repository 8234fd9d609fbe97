"""The slow, obvious answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnsuite.contracts.steps.attention_scores import scaled_dot
from attnsuite.judging.rounded import Rounded

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
    values = split(mapped(value, w_value, b_value), num_heads)  # b h s v
    scores, allowed = scored(
        mapped(query, w_query, b_query), mapped(key, w_key, b_key), num_heads, attn_mask, is_causal
    )
    if not dropout_p:
        heads = scores.attend(values, allowed)  # b h l v
    else:
        heads = dropped(scores.softmax(allowed), dropout_p, kept) @ values
    merged = heads.each(lambda array: np.concatenate(list(array.swapaxes(0, 1)), -1))  # b l c
    return merged if w_output is None else mapped(merged, w_output, b_output)


def attention_weights(
    query: Rounded,
    key: Rounded,
    value: Rounded,
    w_query: Rounded,
    w_key: Rounded,
    w_value: Rounded,
    *,
    num_heads: int,
    b_query: Rounded | None = None,
    b_key: Rounded | None = None,
    attn_mask: Array | None = None,
    is_causal: bool = False,
    **others: Any,
) -> Rounded:
    """The weights of every head before dropout, b h l s."""
    scores, allowed = scored(
        mapped(query, w_query, b_query), mapped(key, w_key, b_key), num_heads, attn_mask, is_causal
    )
    return scores.softmax(allowed)


def scored(queries: Rounded, keys: Rounded, heads: int, mask: Array | None, is_causal: bool) -> tuple[Rounded, Array]:
    """The scores of queries, b l (h p), and keys, b s (h p), and who may attend to whom, b h l s."""
    scores = scaled_dot(split(queries, heads), split(keys, heads))
    allowed = np.broadcast_to(True if mask is None else mask, scores.shape)
    return scores, allowed & np.tril(np.ones(scores.shape[-2:], dtype=bool)) if is_causal else allowed


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
