"""The slow, obvious answer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attnsuite.contracts.steps.additive_attention.oracle import scores as additive
from attnsuite.judging.rounded import Rounded, whichever

Array = np.ndarray[Any, Any]


def attention_scores(
    query: Rounded,
    key: Rounded,
    *,
    score: str = "scaled_dot",
    w: Rounded | None = None,
    w_query: Rounded | None = None,
    w_key: Rounded | None = None,
    w_score: Rounded | None = None,
    attn_mask: Array | None = None,
) -> Rounded:
    """How much each key has to do with each query, … l s; −∞ where it may have nothing to do with it."""
    found = _scores(query, key, score, w, w_query, w_key, w_score)
    if attn_mask is None:
        return found
    value, bound = (np.broadcast_to(each, found.shape) for each in (found.value, np.asarray(found.bound)))
    return Rounded(np.where(attn_mask, value, -np.inf), np.where(attn_mask, bound, 0.0), query.precision)


def _scores(
    query: Rounded,
    key: Rounded,
    score: str,
    w: Rounded | None,
    w_query: Rounded | None,
    w_key: Rounded | None,
    w_score: Rounded | None,
) -> Rounded:
    if score == "bilinear":
        assert w is not None
        return whichever((query @ w) @ key.T, query @ (w @ key.T))
    if score == "additive":
        assert w_query is not None
        assert w_key is not None
        assert w_score is not None
        return additive(query, key, w_query, w_key, w_score)
    if score == "distance":
        apart = query[..., :, None, :] - key[..., None, :, :]  # ... l s e
        direct = (apart * apart).sum() * -0.5
        expanded = (query @ key.T).rounded() - (query * query).sum(keepdims=True) * 0.5
        expanded = expanded - (key * key).sum(keepdims=True).T * 0.5
        return Rounded(direct.value, expanded.bound + direct.bound, query.precision)
    return scaled_dot(query, key) if score == "scaled_dot" else query @ key.T


def scaled_dot(query: Rounded, key: Rounded) -> Rounded:
    """query keyᵀ / √e, … l s. The scale may be applied to the products, to query or key, or its root to both."""
    scale = 1 / math.sqrt(query.shape[-1])
    root = math.sqrt(scale)
    return whichever(
        (query @ key.T) * scale, (query * scale) @ key.T, query @ (key * scale).T, (query * root) @ (key * root).T
    )
