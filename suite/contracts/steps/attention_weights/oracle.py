"""The slow, obvious answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnsuite.cases.tensors import valid
from attnsuite.judging.rounded import Rounded

Array = np.ndarray[Any, Any]


def attention_weights(
    scores: Rounded,
    *,
    normaliser: str = "softmax",
    attn_mask: Array | None = None,
    lengths: Array | None = None,
    is_causal: bool = False,
    empty_row: str = "zeros",
) -> Rounded:
    """Weights over the last axis, … l s; of empty rows as the convention says."""
    *_, queries, keys = scores.shape
    allowed = np.ones(scores.shape, dtype=bool)
    if attn_mask is not None:
        allowed &= attn_mask
    if lengths is not None:
        allowed &= valid(lengths, keys)
    if is_causal:
        allowed &= np.tril(np.ones((queries, keys), dtype=bool))
    weights = scores.softmax(allowed) if normaliser == "softmax" else _shares(scores, allowed)
    if empty_row == "zeros":
        return weights
    hidden = np.broadcast_to(~allowed.any(-1, keepdims=True), scores.shape)
    if empty_row == "mean":
        return _replaced(weights, hidden, 1 / max(keys, 1), 2 * scores.precision.unit / max(keys, 1))
    silent = ~(allowed & (scores.value > -np.inf)).any(-1, keepdims=True)
    return _replaced(weights, hidden | (np.broadcast_to(silent, scores.shape) & (normaliser == "softmax")), np.nan, 0.0)


def _replaced(weights: Rounded, places: Array, value: float, bound: float) -> Rounded:
    value_, bound_ = np.where(places, value, weights.value), np.where(places, bound, weights.bound)
    return Rounded(value_, bound_, weights.precision)


def _shares(scores: Rounded, allowed: Array) -> Rounded:
    """Each score over their sum."""
    shown = scores.each(lambda array: np.where(allowed, array, 0))
    total = shown.sum(keepdims=True)
    empty = np.broadcast_to(~allowed.any(-1, keepdims=True), scores.shape)
    weights = shown / total
    return Rounded(
        np.where(empty | ~allowed, 0, weights.value),
        np.where(empty | ~allowed, 0, weights.bound),
        scores.precision,
    )
