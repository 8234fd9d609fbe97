"""The slow, obvious answer."""

from __future__ import annotations

import math

from suite.judging.rounded import Rounded


def attention_scores(
    query: Rounded,
    key: Rounded,
    *,
    score: str = "scaled_dot",
    w: Rounded | None = None,
    w_query: Rounded | None = None,
    w_key: Rounded | None = None,
    w_score: Rounded | None = None,
) -> Rounded:
    """How much each key has to do with each query, … l s."""
    if score == "bilinear":
        assert w is not None
        return (query @ w) @ key.T
    if score == "additive":
        assert w_query is not None
        assert w_key is not None
        assert w_score is not None
        queries, keys = query @ w_query, key @ w_key  # ... l f, ... s f
        features = (queries[..., :, None, :] + keys[..., None, :, :]).tanh()  # ... l s f
        return (features @ w_score[:, None])[..., 0]
    if score == "distance":
        apart = query[..., :, None, :] - key[..., None, :, :]  # ... l s e
        direct = (apart * apart).sum() * -0.5
        expanded = (query @ key.T).rounded() - (query * query).sum(keepdims=True) * 0.5
        expanded = expanded - (key * key).sum(keepdims=True).T * 0.5
        return Rounded(direct.value, expanded.bound + direct.bound, query.precision)
    products = query @ key.T
    return products * (1 / math.sqrt(query.shape[-1])) if score == "scaled_dot" else products
