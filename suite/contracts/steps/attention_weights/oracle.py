"""The slow, obvious answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from suite.asking.tensors import valid
from suite.judging.rounded import Rounded

Array = np.ndarray[Any, Any]


def attention_weights(
    scores: Rounded,
    *,
    normaliser: str = "softmax",
    attn_mask: Array | None = None,
    lengths: Array | None = None,
    is_causal: bool = False,
) -> Rounded:
    """Weights over the last axis, … l s."""
    *_, queries, keys = scores.shape
    allowed = np.ones(scores.shape, dtype=bool)
    if attn_mask is not None:
        allowed &= attn_mask
    if lengths is not None:
        allowed &= valid(lengths, keys)
    if is_causal:
        allowed &= np.tril(np.ones((queries, keys), dtype=bool))
    if normaliser == "softmax":
        return scores.softmax(allowed)
    shown = scores.each(lambda array: np.where(allowed, array, 0))
    total = shown.sum(keepdims=True)
    empty = np.broadcast_to(~allowed.any(-1, keepdims=True), scores.shape)
    weights = shown / total
    return Rounded(
        np.where(empty | ~allowed, 0, weights.value),
        np.where(empty | ~allowed, 0, weights.bound),
        scores.precision,
    )
