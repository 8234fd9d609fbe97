"""Kernel pooling with exactly one named mistake each."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from suite.asking import Deviation
from suite.asking.layouts import in_memory_order
from suite.asking.staged import Mistake, Staged, imprecise, instead_of, mistakes
from suite.contracts.steps.kernel_pooling.contract import KERNELS


class Pooling(Staged):
    """The formula, step by step."""

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, *, kernel: str = "gaussian", width: float = 1.0
    ) -> Tensor:
        kernel = self.check(query, key, value, kernel, width)
        wide = self.wide(query)
        apart = self.scale(self.distances(query.to(wide), key.to(wide)), width)  # l s
        kernels: dict[str, Callable[[Tensor], Tensor]] = {
            "gaussian": self.gaussian,
            "boxcar": self.boxcar,
            "constant": self.constant,
            "triangular": self.triangular,
            "epanechikov": self.epanechikov,
        }
        return self.pool(self.normalise(kernels[kernel](apart)), value.to(wide)).to(query.dtype)

    @staticmethod
    def check(query: Tensor, key: Tensor, value: Tensor, kernel: str, width: float) -> str:
        if kernel not in KERNELS or not width > 0:
            raise ValueError("no such kernel")
        if (query.dim(), key.dim(), value.dim()) != (1, 1, 2) or len(key) != len(value):
            raise ValueError("ranks or lengths differ")
        return kernel

    @staticmethod
    def distances(query: Tensor, key: Tensor) -> Tensor:
        return query[:, None] - key[None]

    @staticmethod
    def scale(distances: Tensor, width: float) -> Tensor:
        return distances / width

    @staticmethod
    def gaussian(apart: Tensor) -> Tensor:
        """Up to a factor for each query, which normalising removes: its largest is 1."""
        scores = -apart.square() / 2
        return (scores - scores.amax(-1, keepdim=True)).exp() if scores.shape[-1] else scores

    @staticmethod
    def boxcar(apart: Tensor) -> Tensor:
        return (apart.abs() < 1).to(apart.dtype)

    @staticmethod
    def constant(apart: Tensor) -> Tensor:
        return torch.ones_like(apart)

    @staticmethod
    def triangular(apart: Tensor) -> Tensor:
        return (1 - apart.abs()).clamp_min(0)

    @staticmethod
    def epanechikov(apart: Tensor) -> Tensor:
        return (1 - apart.square()).clamp_min(0)

    @staticmethod
    def normalise(kernels: Tensor) -> Tensor:
        total = kernels.sum(-1, keepdim=True)
        return kernels / total.masked_fill(total == 0, 1.0)

    @staticmethod
    def pool(weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value


IN_GAUSSIAN = mistakes(
    Pooling.gaussian,
    underflowing_gaussian=Mistake(
        "exponentials are taken as they are: far from all keys 0/0",
        lambda apart: (-apart.square() / 2).exp(),
        source="documents, E27",
    ),
    gaussian_without_half=Mistake(
        "the Gaussian is exp(−u²), without the half", lambda apart: Pooling.gaussian(apart * 2**0.5)
    ),
    laplacian=Mistake("distances are not squared in the Gaussian", lambda apart: (-apart.abs() / 2).exp()),
)


IN_NORMALISE = mistakes(
    Pooling.normalise,
    clamped_total=Mistake(
        "the kernels' sum is taken for a thousandth at least",
        lambda kernels: kernels / kernels.sum(-1, keepdim=True).clamp_min(1e-3),
    ),
    nan_without_support=Mistake(
        "a query without support gives NaN",
        lambda kernels: kernels / kernels.sum(-1, keepdim=True),
        source="documents, E27",
    ),
    unnormalised=Mistake("weights are not divided by their sum", lambda kernels: kernels.clone()),
    normalised_over_queries=Mistake(
        "weights are divided by their sum over the queries", lambda kernels: Pooling.normalise(kernels.mT).mT
    ),
)


IN_BOXCAR = mistakes(
    Pooling.boxcar,
    half_boxcar=Mistake("the box reaches to |u| < 1/2", lambda apart: (apart.abs() < 0.5).to(apart.dtype)),
    closed_boxcar=Mistake("the box holds its edge, |u| ≤ 1", lambda apart: (apart.abs() <= 1).to(apart.dtype)),
    one_sided_boxcar=Mistake(
        "the box holds only keys below the query", lambda apart: ((apart < 1) & (apart >= 0)).to(apart.dtype)
    ),
)


@instead_of(Pooling.triangular, "the triangle is not cut at zero: far keys weigh negatively")
def uncut_triangle(apart: Tensor) -> Tensor:
    return 1 - apart.abs()


@instead_of(Pooling.triangular, "Epanechikov is taken for the triangle", source="documents, E19")
def parabola_for_triangle(apart: Tensor) -> Tensor:
    return Pooling.epanechikov(apart)


@instead_of(Pooling.epanechikov, "the triangle is taken for Epanechikov", source="documents, E19")
def triangle_for_parabola(apart: Tensor) -> Tensor:
    return Pooling.triangular(apart)


@instead_of(Pooling.epanechikov, "the parabola is squared: the biweight kernel")
def biweight(apart: Tensor) -> Tensor:
    return Pooling.epanechikov(apart).square()


@instead_of(Pooling.constant, "a constant reaches only as far as a box")
def bounded_constant(apart: Tensor) -> Tensor:
    return Pooling.boxcar(apart / 10)


IN_SCALE = mistakes(
    Pooling.scale,
    ignores_width=Mistake("the width is ignored", lambda distances, width: distances.clone()),
    multiplied_by_width=Mistake("distances are multiplied by the width", lambda distances, width: distances * width),
    root_of_width=Mistake(
        "distances are divided by the width's root", lambda distances, width: distances / math.sqrt(width)
    ),
)


@instead_of(Pooling.normalise, "a query without support gets the mean of all")
def mean_without_support(kernels: Tensor) -> Tensor:
    total = kernels.sum(-1, keepdim=True)
    return Pooling.normalise(torch.where(total == 0, torch.ones_like(kernels), kernels))


@instead_of(Pooling.normalise, "keys beyond the 128th are left out")
def drops_keys_beyond_128(kernels: Tensor) -> Tensor:
    kernels = kernels.clone()
    kernels[:, 128:] = 0
    return Pooling.normalise(kernels)


@instead_of(Pooling.normalise, "weights are transposed where there are as many keys as queries")
def transposed_weights(kernels: Tensor) -> Tensor:
    weights = Pooling.normalise(kernels)
    return weights.mT if weights.shape[0] == weights.shape[1] else weights


@instead_of(Pooling.pool, "the values are taken in reverse")
def reversed_values(weights: Tensor, value: Tensor) -> Tensor:
    return weights @ value.flip(0)


@instead_of(Pooling.pool, "the value of the nearest key is returned, not the mean")
def nearest_only(weights: Tensor, value: Tensor) -> Tensor:
    nearest: Tensor = value[weights.argmax(-1)] if len(value) else weights @ value
    return nearest


@instead_of(Pooling.check, "a negative width is taken for its size")
def accepts_negative_width(query: Tensor, key: Tensor, value: Tensor, kernel: str, width: float) -> str:
    return Pooling.check(query, key, value, kernel, abs(width))


@instead_of(Pooling.check, "an unknown kernel is taken for a Gaussian")
def accepts_any_kernel(query: Tensor, key: Tensor, value: Tensor, kernel: str, width: float) -> str:
    return Pooling.check(query, key, value, kernel if kernel in KERNELS else "gaussian", width)


def of_width_1(named: str) -> Deviation:
    """The width is ignored by one kernel alone."""

    def pooled(*points: Tensor, kernel: str = "gaussian", width: float = 1.0) -> Tensor:
        return Pooling()(*points, kernel=kernel, width=1.0 if kernel == named else width)

    return Deviation(f"{named}_of_width_1", f"the width is ignored by the kernel {named}", pooled)


CONTROLS = {"correct": Pooling()}
OTHERS = [
    in_memory_order(Pooling()),
    *imprecise(Pooling),
    *map(of_width_1, ("gaussian", "boxcar", "triangular", "epanechikov")),
]
