"""The slow, obvious answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from suite.judging.rounded import Rounded

Array = np.ndarray[Any, Any]


def scores(query: Rounded, key: Rounded, w_query: Rounded, w_key: Rounded, w_score: Rounded) -> Rounded:
    """tanh(query w_query + key w_key) · w_score, b l s."""
    queries, keys = query @ w_query, key @ w_key  # b l e, b s e
    features = (queries[:, :, None] + keys[:, None]).tanh()  # b l s e
    return (features @ w_score[:, None])[..., 0]


def additive_attention(
    query: Rounded,
    key: Rounded,
    value: Rounded,
    w_query: Rounded,
    w_key: Rounded,
    w_score: Rounded,
    attn_mask: Array | None = None,
) -> Rounded:
    """softmax(scores) value, b l v."""
    return scores(query, key, w_query, w_key, w_score).attend(value, attn_mask)
