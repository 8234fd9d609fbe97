"""What becomes of the gradient of a softmax where scores are far apart, and what scaling them does about it."""

from __future__ import annotations

from functools import partial

import torch
from torch import Generator, Tensor

from attnsuite.documents.claims.claim import ABOVE_ONE, ABOVE_ZERO, Claim, Measured, Range, number, sampled
from attnsuite.model import Evidence
from attnsuite.model.statistics import MARGIN

WIDE, NARROW = 512, 16
"""Widths of queries and keys."""
KEYS, DRAWS = 16, 40
VARIANCE_WIDTHS = (16, 64, 256)
PRODUCTS = 20_000
"""Products in a draw: the variance of so many is known to one per cent."""


def derivative(gap: float, dtype: torch.dtype) -> Measured:
    """The largest entry of the derivative of the weights of two keys by their scores."""
    scores = torch.tensor([0.0, gap], dtype=dtype)
    weights: Tensor = torch.autograd.functional.jacobian(lambda x: x.softmax(-1), scores)
    return number(float(weights.abs().max()), f"{weights.abs().max():.2g} at a gap of {gap:g} in {str(dtype)[6:]}")


def gradients(width: int, scaled: bool, random: Generator) -> float:
    """The mean norm of the derivative of weights w by their scores, diag(w) − w wᵀ, of queries with iid keys."""
    query, keys = torch.randn(DRAWS, width, 1, generator=random), torch.randn(DRAWS, KEYS, width, generator=random)
    scores = (keys @ query)[..., 0] / (width**0.5 if scaled else 1.0)
    weights = scores.double().softmax(-1)
    derivatives = weights.diag_embed() - weights[:, :, None] * weights[:, None]
    return float(derivatives.flatten(1).norm(dim=1).mean())


def by_scaling() -> Measured:
    """How many times as large the gradient is, at a large width, where scores are divided by the root of the width."""
    random = Generator().manual_seed(5)
    ratios = [gradients(WIDE, True, random) / gradients(WIDE, False, random) for _ in range(DRAWS)]
    return sampled(ratios, f"means over {DRAWS} queries with {KEYS} keys of width {WIDE}")


def by_width() -> Measured:
    """What is left of the gradient at a large width of that at a small one, where scores are divided by the root."""
    random = Generator().manual_seed(6)
    ratios = [gradients(WIDE, True, random) / gradients(NARROW, True, random) for _ in range(DRAWS)]
    return sampled(ratios, f"means over {DRAWS} queries, widths {NARROW} and {WIDE}")


def variance(width: int) -> Measured:
    """The variance of q · k over the width."""
    random = Generator().manual_seed(width)
    found = []
    for _ in range(DRAWS // 2):
        products = (
            torch.randn(PRODUCTS, width, generator=random) * torch.randn(PRODUCTS, width, generator=random)
        ).sum(-1)
        found.append(float(products.var()) / width)
    return sampled(found, f"{DRAWS // 2} draws of {PRODUCTS:,} products")


CLAIMS = (
    Claim("softmax/never_vanishes", "doc-004", "11.1", "the gradient of the softmax never vanishes",
          "largest derivative of a weight by a score, 200 apart, in float32", ABOVE_ZERO, Evidence.EXACT,
          partial(derivative, 200.0, torch.float32)),
    Claim("softmax/small_not_zero", "doc-004", "11.1", "the gradient of the softmax never vanishes",
          "largest derivative of a weight by a score, 100 apart, in float64", ABOVE_ZERO, Evidence.EXACT,
          partial(derivative, 100.0, torch.float64)),
    Claim("softmax/scaling_keeps_gradients", "doc-003", "3.4.1", "dividing by √d avoids vanishing gradients of large scores",
          "gradient of the weights with the division, as a multiple of that without", ABOVE_ONE, Evidence.DRAWN, by_scaling),
    Claim("softmax/scaled_at_any_width", "doc-003", "3.4.1", "dividing by √d avoids vanishing gradients of large scores",
          f"gradient of the weights at width {WIDE}, as a multiple of that at {NARROW}", Range(0.5, 2.0, "0.5 to 2"),
          Evidence.DRAWN, by_width),
    *(Claim(f"softmax/variance_{width}", "doc-004", "11.3.1", "the product of iid vectors of variance 1 has variance d",
            f"variance of q · k over d = {width}", Range(1 - MARGIN, 1 + MARGIN, f"1 ± {MARGIN:g}"), Evidence.DRAWN,
            partial(variance, width)) for width in VARIANCE_WIDTHS),
)  # fmt: skip
