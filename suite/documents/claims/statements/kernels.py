"""What is said of the kernels of Nadaraya's and Watson's regression, on fresh draws of the document's points."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Generator, Tensor

from attnsuite.documents.claims.claim import ABOVE_ONE, Claim, Measured, Range, at_most, number, sampled
from attnsuite.implementations.kernel_pooling.eager import kernel_pooling
from attnsuite.model import Evidence

POINTS, MANY, DRAWS = 40, 640, 200
GRID = torch.arange(0, 5, 0.1, dtype=torch.float64)
"""The document's places of validation."""
RANDOM = f"{DRAWS} draws of the document's process"
ROUNDING = 1e-9
NARROWING = (POINTS / MANY) ** 0.2
"""How much narrower the kernel is with more points: by Silverman's rule the width goes with n^(−1/5)."""


def truth(x: Tensor) -> Tensor:
    """The document's curve."""
    return 2 * x.sin() + x


def points(random: Generator, count: int) -> tuple[Tensor, Tensor]:
    """Places and noisy values, as the document draws them."""
    x = (5 * torch.rand(count, generator=random, dtype=torch.float64)).sort().values
    return x, truth(x) + torch.randn(count, generator=random, dtype=torch.float64)


def estimates(x: Tensor, y: Tensor, kernel: str = "gaussian", width: float = 1.0, at: Tensor = GRID) -> Tensor:
    """The regression at the places of validation."""
    return kernel_pooling(at, x, y[:, None], kernel=kernel, width=width)[:, 0]


def apart(one: Tensor, other: Tensor) -> float:
    """The root of the mean squared difference."""
    return float((one - other).square().mean().sqrt())


def drawn(statistic: Callable[[Generator], float]) -> Measured:
    """A statistic of fresh draws."""
    random = Generator().manual_seed(9)
    return sampled([statistic(random) for _ in range(DRAWS)], RANDOM)


def similar(random: Generator) -> float:
    """How far the three local kernels' estimates lie apart at most, over the least error that one of them makes."""
    x, y = points(random, POINTS)
    found = [estimates(x, y, kernel) for kernel in ("gaussian", "boxcar", "triangular")]
    between = max(apart(one, other) for one in found for other in found)
    return between / min(apart(one, truth(GRID)) for one in found)


def roughness(random: Generator) -> float:
    """The roughness of the estimates of a narrow kernel, as a multiple of a wide one's: by second differences."""
    x, y = points(random, POINTS)
    narrow, wide = (estimates(x, y, width=width).diff(n=2).square().mean() for width in (0.1, 1.0))
    return float((narrow / wide).sqrt())


def consistent(random: Generator) -> float:
    """The error with few points, as a multiple of that with many and a narrower kernel."""
    few, many = (
        apart(estimates(*points(random, count), width=0.5 * narrower), truth(GRID))
        for count, narrower in ((POINTS, 1.0), (MANY, NARROWING))
    )
    return few / many


def mean() -> Measured:
    """How far the constant kernel's estimates lie from the mean of the values."""
    x, y = points(Generator().manual_seed(10), POINTS)
    return number(float((estimates(x, y, "constant") - y.mean()).abs().max()))


def shifted() -> Measured:
    """How far estimates move where queries and keys are shifted alike."""
    x, y = points(Generator().manual_seed(10), POINTS)
    return number(float((estimates(x + 3, y, at=GRID + 3) - estimates(x, y)).abs().max()))


CLAIMS = (
    Claim("kernels/similar", "doc-004", "11.2.2", "Gaussian, boxcar and triangular kernel give similar estimates",
          "largest distance between two of them, over the least error of one", at_most(1),
          Evidence.DRAWN, partial(drawn, similar)),
    Claim("kernels/constant", "doc-004", "11.2.2", "the constant kernel gives the mean",
          "largest difference from the mean", at_most(ROUNDING), Evidence.EXACT, mean),
    Claim("kernels/narrow", "doc-004", "11.2.3", "a narrower kernel is less smooth",
          "roughness at a width of 0.1, as a multiple of that at 1", ABOVE_ONE, Evidence.DRAWN, partial(drawn, roughness)),
    Claim("kernels/consistent", "doc-004", "11.2", "the estimator is consistent if narrowed with more data",
          f"error with {POINTS} points, as a multiple of that with {MANY}", ABOVE_ONE, Evidence.DRAWN, partial(drawn, consistent)),
    Claim("kernels/translation", "doc-004", "11.2", "the kernels are invariant to translation",
          "largest difference after a shift of all places", Range(0.0, ROUNDING, f"at most {ROUNDING:g}"),
          Evidence.EXACT, shifted),
)  # fmt: skip
