"""The slow, obvious answer."""

from __future__ import annotations

import numpy as np

from suite.contracts.rounded import Rounded

ANGLE = 12.0
"""Units of the accumulator that an angle may be off by, relatively: a power of base, a quotient and a product."""


def positional_encoding(x: Rounded, *, offset: int = 0, base: float = 10000.0) -> Rounded:
    """x plus the sines and cosines of its positions, b l e."""
    _, length, width = x.shape
    one = np.ones((), dtype=x.value.dtype)
    positions = one * np.arange(offset, offset + length)[:, None]  # l 1
    exponents = one * (np.arange(width) // 2 * 2) / width  # e
    angles = positions / (one * base) ** exponents  # l e
    encoding = np.where(np.arange(width) % 2 == 0, np.sin(angles), np.cos(angles))
    off = ANGLE * x.precision.accumulator * angles.astype(np.float64)
    return x + Rounded(encoding, off, x.precision).rounded()
