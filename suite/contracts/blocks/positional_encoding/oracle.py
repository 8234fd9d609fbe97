"""The slow, obvious answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnsuite.judging.rounded import LIBRARY, Rounded

Array = np.ndarray[Any, Any]

EXPONENT = 3.0
"""Roundings of an exponent, or of its product with a logarithm of base, before the power is taken."""


def positional_encoding(x: Rounded, *, offset: int = 0, base: float = 10000.0) -> Rounded:
    """x plus the sines and cosines of its positions, b l e."""
    _, length, width = x.shape
    one = np.ones((), dtype=x.value.dtype)
    positions = one * np.arange(offset, offset + length)[:, None]  # l 1
    exponents = one * (np.arange(width) // 2 * 2) / width  # e
    angles = positions / (one * base) ** exponents  # l e
    encoding = np.where(np.arange(width) % 2 == 0, np.sin(angles), np.cos(angles))
    off = _roundings(exponents.astype(np.float64), base) * x.precision.accumulator * angles.astype(np.float64)
    return x + Rounded(encoding, off, x.precision).rounded()


def _roundings(exponents: Array, base: float) -> Array:
    """How many an angle may be off by, relatively.

    Those of an exponent c count ln(base) · c times in the power; then come the power's own, a reciprocal, a position
    beyond the integers of the accumulator, and the product.
    """
    passed_on: Array = EXPONENT * abs(np.log(base)) * exponents
    return passed_on + LIBRARY + 3.0
