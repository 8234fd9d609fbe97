"""The slow, obvious answer."""

from __future__ import annotations

import numpy as np

from attnsuite.judging.rounded import Rounded


def add_norm(
    x: Rounded, y: Rounded, weight: Rounded, bias: Rounded, *, norm: str = "layer", eps: float = 1e-5
) -> Rounded:
    """(x + y), normalised over features or over positions, … e.

    Who folds the mean into the bias, a·sum + (bias − a·mean) with a = weight / √…, rounds once more at the bias's size.
    """
    both, bias = x + y, bias.rounded()
    if norm == "batch":
        rows = both.each(lambda array: array.reshape(-1, array.shape[-1]).T)  # e n
        return _normalised(rows, eps).each(lambda array: array.T.reshape(both.shape)) * weight + bias
    return _normalised(both, eps) * weight + bias


def _normalised(rows: Rounded, eps: float) -> Rounded:
    """Over the last axis. The division is by what is at least √eps, however uncertain the variance is."""
    centred = rows - rows.mean(keepdims=True)
    variance = (centred * centred).mean(keepdims=True)
    root = (variance + eps).sqrt()
    least = np.maximum(root.value.astype(np.float64) - root.bound, np.sqrt(eps))
    value = centred.value / root.value
    passed_on = (centred.bound + abs(value).astype(np.float64) * root.bound) / least
    return type(rows)(value, passed_on, rows.precision).rounded()
