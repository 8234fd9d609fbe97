"""Kernel pooling with exactly one named mistake each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps, usual_mutants
from attnsuite.cases.mutants import Mutation, filled_beyond, formula, mutants, turned, with_arguments, with_result
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


def of_width_1(named: str) -> Mutation:
    """The width is ignored by one kernel alone."""
    ignored: Callable[[float, str], float] = lambda width, kernel: 1.0 if kernel == named else width  # noqa: E731
    return Mutation(f"the width is ignored by the kernel {named}", with_arguments(width=ignored))


CONTROLS = {"correct": Pooling()}
GENERAL_MUTANTS = usual_mutants(Pooling)
MUTANTS = mutants(
    Pooling,
    whole={
        "accepts_negative_width": Mutation("a negative width is taken for its size", with_arguments(width=abs)),
        "accepts_any_kernel": Mutation(
            "an unknown kernel is taken for a Gaussian",
            with_arguments(kernel=lambda kernel: kernel if kernel in KERNELS else "gaussian"),
        ),
        "swapped_query_and_key": Mutation(
            "queries and keys are swapped where there are as many",
            with_arguments(
                query=lambda query, key: key if key.shape == query.shape else query,
                key=lambda key, query: query if key.shape == query.shape else key,
            ),
        ),
        "transposed_values": Mutation("values are transposed where they are square", with_arguments(value=turned)),
        "gaussian_of_width_1": of_width_1("gaussian"),
        "boxcar_of_width_1": of_width_1("boxcar"),
        "triangular_of_width_1": of_width_1("triangular"),
        "epanechikov_of_width_1": of_width_1("epanechikov"),
    },
    scale={
        "ignores_width": Mutation("the width is ignored", lambda distances, width: distances.clone()),
        "multiplied_by_width": Mutation(
            "distances are multiplied by the width", lambda distances, width: distances * width
        ),
        "root_of_width": Mutation("distances are divided by the width's root", with_arguments(width=math.sqrt)),
    },
    gaussian={
        "underflowing_gaussian": Mutation(
            "exponentials are taken as they are: far from all keys 0/0",
            lambda apart: (-apart.square() / 2).exp(),
            "documents, E27",
        ),
        "gaussian_without_half": Mutation(
            "the Gaussian is exp(−u²), without the half", with_arguments(apart=lambda apart: apart * 2**0.5)
        ),
        "laplacian": Mutation("distances are not squared in the Gaussian", lambda apart: (-apart.abs() / 2).exp()),
    },
    boxcar={
        "half_boxcar": Mutation("the box reaches to |u| < 1/2", lambda apart: (apart.abs() < 0.5).to(apart.dtype)),
        "closed_boxcar": Mutation("the box holds its edge, |u| ≤ 1", lambda apart: (apart.abs() <= 1).to(apart.dtype)),
        "one_sided_boxcar": Mutation(
            "the box holds only keys below the query", lambda apart: ((apart < 1) & (apart >= 0)).to(apart.dtype)
        ),
    },
    constant={
        "bounded_constant": Mutation(
            "a constant reaches only as far as a box", lambda apart: Pooling.boxcar(apart / 10)
        )
    },
    triangular={
        "uncut_triangle": Mutation(
            "the triangle is not cut at zero: far keys weigh negatively", lambda apart: 1 - apart.abs()
        ),
        "parabola_for_triangle": Mutation(
            "Epanechikov is taken for the triangle", Pooling.epanechikov, "documents, E19"
        ),
    },
    epanechikov={
        "triangle_for_parabola": Mutation(
            "the triangle is taken for Epanechikov", Pooling.triangular, "documents, E19"
        ),
        "biweight": Mutation("the parabola is squared: the biweight kernel", with_result(torch.square)),
    },
    normalise={
        "clamped_total": Mutation(
            "the kernels' sum is taken for a thousandth at least",
            lambda kernels: kernels / kernels.sum(-1, keepdim=True).clamp_min(1e-3),
        ),
        "nan_without_support": Mutation("a query without support gives NaN", unguarded, "documents, E27"),
        "mean_without_support": Mutation(
            "a query without support gets the mean of all",
            with_arguments(terms=lambda kernels: kernels.masked_fill(kernels.sum(-1, keepdim=True) == 0, 1.0)),
        ),
        "unnormalised": Mutation("weights are not divided by their sum", torch.clone),
        "normalised_over_queries": Mutation(
            "weights are divided by their sum over the queries", lambda kernels: shares(kernels.mT).mT
        ),
        "drops_keys_beyond_128": Mutation(
            "keys beyond the 128th are left out", with_arguments(terms=filled_beyond(128, 0))
        ),
        "transposed_weights": Mutation(
            "weights are transposed where there are as many keys as queries", with_result(turned)
        ),
    },
    pool={
        "reversed_values": Mutation("the values are taken in reverse", with_arguments(value=lambda x: x.flip(0))),
        "nearest_only": Mutation(
            "the value of the nearest key is returned, not the mean",
            lambda weights, value: value[weights.argmax(-1)] if len(value) else weights @ value,
        ),
    },
)
