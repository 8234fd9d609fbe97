"""The slow, obvious answer."""

from __future__ import annotations

from attnsuite.judging.rounded import Rounded


def positionwise_ffn(
    x: Rounded, w1: Rounded, b1: Rounded, w2: Rounded, b2: Rounded, *, activation: str = "relu"
) -> Rounded:
    """activation(x w1 + b1) w2 + b2, … v."""
    hidden = x[None].affine(w1, b1)  # 1 ... f: numpy multiplies a single vector without a row
    hidden = hidden.relu() if activation == "relu" else hidden.gelu()
    return hidden.affine(w2, b2)[0]
