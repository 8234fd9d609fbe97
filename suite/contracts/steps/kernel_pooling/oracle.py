"""The slow, obvious answer."""

from __future__ import annotations

import numpy as np

from attnsuite.judging.rounded import Rounded, whichever


def kernel_pooling(
    query: Rounded,
    key: Rounded,
    value: Rounded,
    *,
    kernel: str = "gaussian",
    width: float = 1.0,
    empty_row: str = "zeros",
) -> Rounded:
    """The mean of the values by the kernel of the distances, l v; without support as the convention says."""
    apart = (query[:, None] - key[None]) / width  # l s
    if kernel == "gaussian":
        return (apart * apart * -0.5).attend(value)
    weights = _kernel(kernel, apart)
    total = weights.sum(keepdims=True)  # l 1
    mean = whichever((weights @ value) / total, (weights / total) @ value)
    alone = np.broadcast_to(total.value == 0, mean.shape)
    return Rounded(
        np.where(alone, np.nan if empty_row == "nan" and key.shape[0] else 0, mean.value),
        np.where(alone, 0, mean.bound),
        query.precision,
    )


def _kernel(name: str, apart: Rounded) -> Rounded:
    size = Rounded(abs(apart.value), apart.bound, apart.precision)
    if name == "triangular":
        return (size * -1.0 + 1.0).relu()
    if name == "epanechikov":
        return (apart * apart * -1.0 + 1.0).relu()
    ones = np.ones_like(apart.value)
    if name == "constant":
        return Rounded(ones, 0.0, apart.precision)
    # A difference that is the width has that very value in every dtype: no rounding takes it across the edge.
    at_the_edge = (abs(size.size - 1.0) < size.bound) & (size.value != 1)
    return Rounded(np.where(size.value < 1, ones, 0), np.where(at_the_edge, 1.0, 0.0), apart.precision)
