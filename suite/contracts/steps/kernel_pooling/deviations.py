"""Kernel pooling with exactly one named mistake each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps, usual_mutants
from attnsuite.cases.mutants import Wrong, filled_beyond, formula, given, mutants, rows, then, turned
from attnsuite.contracts.softmax import shares, unguarded
from attnsuite.contracts.steps.kernel_pooling.contract import KERNELS


class Pooling(Steps):
    """The formula, step by step."""

    axes = Axes(query="l", key="s", value="s v")
    choices: ClassVar = {"kernel": KERNELS}

    def compute(
        self, query: Tensor, key: Tensor, value: Tensor, *, kernel: str = "gaussian", width: float = 1.0
    ) -> Tensor:
        wide = self.wide(query)
        apart = self.scale(query.to(wide)[:, None] - key.to(wide), width)  # l s
        kernels: Tensor = getattr(self, kernel)(apart)
        return self.pool(self.normalise(kernels), value.to(wide)).to(query.dtype)

    @staticmethod
    def check(given: Arguments, sizes: Sizes) -> None:
        if not given["width"] > 0:
            raise ValueError("the width is not above zero")

    scale = formula(lambda distances, width: distances / width)

    @staticmethod
    def gaussian(apart: Tensor) -> Tensor:
        """Up to a factor for each query, which normalising removes: its largest is 1."""
        scores = -apart.square() / 2
        return (scores - scores.amax(-1, keepdim=True)).exp() if scores.shape[-1] else scores

    boxcar = formula(lambda apart: (apart.abs() < 1).to(apart.dtype))
    constant = formula(torch.ones_like)
    triangular = formula(lambda apart: (1 - apart.abs()).clamp_min(0))
    epanechikov = formula(lambda apart: (1 - apart.square()).clamp_min(0))

    normalise = staticmethod(shares)
    pool = formula(lambda weights, value: weights @ value)


def of_width_1(named: str) -> Wrong:
    """The width is ignored by one kernel alone."""
    ignored: Callable[[float, str], float] = lambda width, kernel: 1.0 if kernel == named else width  # noqa: E731
    return Wrong(f"the width is ignored by the kernel {named}", given(width=ignored))


CONTROLS = {"correct": Pooling()}
OTHERS = usual_mutants(Pooling)
MISTAKES = mutants(
    Pooling,
    whole=rows(
        accepts_negative_width=Wrong("a negative width is taken for its size", given(width=abs)),
        accepts_any_kernel=Wrong(
            "an unknown kernel is taken for a Gaussian",
            given(kernel=lambda kernel: kernel if kernel in KERNELS else "gaussian"),
        ),
        swapped_query_and_key=Wrong(
            "queries and keys are swapped where there are as many",
            given(
                query=lambda query, key: key if key.shape == query.shape else query,
                key=lambda key, query: query if key.shape == query.shape else key,
            ),
        ),
        transposed_values=Wrong("values are transposed where they are square", given(value=turned)),
        gaussian_of_width_1=of_width_1("gaussian"),
        boxcar_of_width_1=of_width_1("boxcar"),
        triangular_of_width_1=of_width_1("triangular"),
        epanechikov_of_width_1=of_width_1("epanechikov"),
    ),
    scale=rows(
        ignores_width=Wrong("the width is ignored", lambda distances, width: distances.clone()),
        multiplied_by_width=Wrong("distances are multiplied by the width", lambda distances, width: distances * width),
        root_of_width=Wrong("distances are divided by the width's root", given(width=math.sqrt)),
    ),
    gaussian=rows(
        underflowing_gaussian=Wrong(
            "exponentials are taken as they are: far from all keys 0/0",
            lambda apart: (-apart.square() / 2).exp(),
            "documents, E27",
        ),
        gaussian_without_half=Wrong(
            "the Gaussian is exp(−u²), without the half", given(apart=lambda apart: apart * 2**0.5)
        ),
        laplacian=Wrong("distances are not squared in the Gaussian", lambda apart: (-apart.abs() / 2).exp()),
    ),
    boxcar=rows(
        half_boxcar=Wrong("the box reaches to |u| < 1/2", lambda apart: (apart.abs() < 0.5).to(apart.dtype)),
        closed_boxcar=Wrong("the box holds its edge, |u| ≤ 1", lambda apart: (apart.abs() <= 1).to(apart.dtype)),
        one_sided_boxcar=Wrong(
            "the box holds only keys below the query", lambda apart: ((apart < 1) & (apart >= 0)).to(apart.dtype)
        ),
    ),
    constant=rows(
        bounded_constant=Wrong("a constant reaches only as far as a box", lambda apart: Pooling.boxcar(apart / 10))
    ),
    triangular=rows(
        uncut_triangle=Wrong(
            "the triangle is not cut at zero: far keys weigh negatively", lambda apart: 1 - apart.abs()
        ),
        parabola_for_triangle=Wrong("Epanechikov is taken for the triangle", Pooling.epanechikov, "documents, E19"),
    ),
    epanechikov=rows(
        triangle_for_parabola=Wrong("the triangle is taken for Epanechikov", Pooling.triangular, "documents, E19"),
        biweight=Wrong("the parabola is squared: the biweight kernel", then(torch.square)),
    ),
    normalise=rows(
        clamped_total=Wrong(
            "the kernels' sum is taken for a thousandth at least",
            lambda kernels: kernels / kernels.sum(-1, keepdim=True).clamp_min(1e-3),
        ),
        nan_without_support=Wrong("a query without support gives NaN", unguarded, "documents, E27"),
        mean_without_support=Wrong(
            "a query without support gets the mean of all",
            given(terms=lambda kernels: kernels.masked_fill(kernels.sum(-1, keepdim=True) == 0, 1.0)),
        ),
        unnormalised=Wrong("weights are not divided by their sum", torch.clone),
        normalised_over_queries=Wrong(
            "weights are divided by their sum over the queries", lambda kernels: shares(kernels.mT).mT
        ),
        drops_keys_beyond_128=Wrong("keys beyond the 128th are left out", given(terms=filled_beyond(128, 0))),
        transposed_weights=Wrong("weights are transposed where there are as many keys as queries", then(turned)),
    ),
    pool=rows(
        reversed_values=Wrong("the values are taken in reverse", given(value=lambda x: x.flip(0))),
        nearest_only=Wrong(
            "the value of the nearest key is returned, not the mean",
            lambda weights, value: value[weights.argmax(-1)] if len(value) else weights @ value,
        ),
    ),
)
