"""The slow, obvious answer."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from attnsuite.judging.rounded import Rounded, concatenated, whichever

Array = np.ndarray[Any, Any]


def scores(query: Rounded, key: Rounded, w_query: Rounded, w_key: Rounded, w_score: Rounded) -> Rounded:
    """tanh(query w_query + key w_key) · w_score, … l s.

    The two products may be one, of query and key side by side with both matrices one below the other.
    """
    apart = (query @ w_query)[..., :, None, :] + (key @ w_key)[..., None, :, :]  # ... l s e
    pairs = [query[..., :, None, :], key[..., None, :, :]]  # ... l s q, ... l s k
    beside = concatenated([each.each(partial(_widened, apart.shape[:-1])) for each in pairs])
    at_once = beside @ concatenated([w_query, w_key], -2)
    return (whichever(apart, at_once).tanh() @ w_score[:, None])[..., 0]


def _widened(lead: tuple[int, ...], array: Array) -> Array:
    """The same vectors for each place of the leading axes."""
    return np.broadcast_to(array, (*lead, array.shape[-1]))


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
