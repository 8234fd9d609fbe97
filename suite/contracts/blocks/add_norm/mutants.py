"""Residual connections with exactly one named mistake each."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from attnsuite.cases import Mutant
from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps, usual_mutants
from attnsuite.cases.mutants import Mutation, formula, mutants, repeated_beyond, turned, with_arguments, with_result


class Residual(Steps):
    """The formula, step by step."""

    axes = Axes(x="… e", y="… e", weight="e", bias="e")
    choices: ClassVar = {"norm": ("layer", "batch")}

    def compute(
        self, x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, *, norm: str = "layer", eps: float = 1e-5
    ) -> Tensor:
        dtype, wide = x.dtype, self.wide(x)
        both = self.add(x.to(wide), y.to(wide))
        rows = both if norm == "layer" else self.gather(both)  # ... n: what is normalised together
        mean = self.mean(rows)
        normalised = (rows - mean) / self.root(self.variance(rows, mean), eps)
        if norm == "batch":
            normalised = normalised.mT.reshape(both.shape)
        return self.finish(normalised, weight.to(wide), bias.to(wide), both).to(dtype)

    @staticmethod
    def check(given: Arguments, sizes: Sizes) -> None:
        if given["norm"] == "batch" and given["x"].shape[:-1].numel() < 2:
            raise ValueError("one position")

    add = formula(lambda x, y: x + y)
    gather = formula(lambda both: both.flatten(0, -2).mT)  # e n
    mean = formula(lambda rows: rows.mean(-1, keepdim=True))
    variance = formula(lambda rows, mean: (rows - mean).square().mean(-1, keepdim=True))
    root = formula(lambda variance, eps: (variance + eps).sqrt())
    finish = formula(lambda normalised, weight, bias, both: normalised * weight + bias)


def as_wide(weight: Tensor, x: Tensor) -> Tensor:
    return weight.expand(x.shape[-1])


def each_apart(both: Tensor) -> Tensor:
    if both.dim() < 3:
        return both
    centred = both - both.mean(-2, keepdim=True)
    return centred / (centred.square().mean(-2, keepdim=True) + 1e-12).sqrt()


def refuses_other_ranks(both: Tensor) -> Tensor:
    if both.dim() != 3:
        raise ValueError("another rank")
    return both


def fixed_eps_in(named: str) -> Mutation:
    """What one norm alone ignores."""
    says = f"eps is 10⁻⁵ in {named} normalisation, whatever was asked"
    return Mutation(says, with_arguments(eps=lambda eps, norm: 1e-5 if norm == named else eps))


rms_norm = Mutant(
    "rms_norm",
    "the root mean square is taken: no mean is subtracted at all",
    Residual(mean=lambda rows: torch.zeros_like(rows[..., :1])),
    source="arXiv 1910.07467",
)
items_apart = Mutant(
    "items_apart",
    "batch normalisation takes the positions of each item apart",
    Residual(
        check=lambda given, sizes: Residual.check(given, sizes) if given["x"].dim() < 3 else None,
        gather=lambda both: Residual.gather(each_apart(both)),
    ),
    source="documents, E38",
)


CONTROLS = {"correct": Residual()}
GENERAL_MUTANTS = usual_mutants(Residual)
MUTANTS = mutants(
    Residual,
    whole={
        "swapped_weight_and_bias": Mutation(
            "weight and bias are swapped",
            with_arguments(weight=lambda weight, bias: bias, bias=lambda bias, weight: weight),
        ),
        "over_positions": Mutation(
            "positions are normalised, not features, where there are as many",
            lambda *given, **options: turned(Residual()(*map(turned, given[:2]), *given[2:], **options)),
        ),
        "always_layer": Mutation(
            "layer normalisation is taken whatever was asked", with_arguments(norm=lambda norm: "layer")
        ),
        "broadcasts": Mutation(
            "what broadcasts is accepted", with_arguments(y=lambda y, x: y.expand_as(x), weight=as_wide, bias=as_wide)
        ),
        "fixed_eps_in_layer": fixed_eps_in("layer"),
        "fixed_eps_in_batch": fixed_eps_in("batch"),
    },
    add={
        "no_residual": Mutation("the residual is left out: only y is normalised", lambda x, y: y.clone()),
        "double_residual": Mutation("the residual is added twice", with_arguments(x=lambda x: 2 * x)),
        "repeats_position_beyond_128": Mutation(
            "positions beyond the 128th are answered like the 128th", with_result(repeated_beyond(128, -2))
        ),
    },
    gather={
        "rank_3_only": Mutation(
            "batch normalisation refuses what has not items, positions and features",
            with_arguments(both=refuses_other_ranks),
        )
    },
    variance={
        "unbiased_variance": Mutation(
            "the variance is divided by the count less one",
            lambda rows, mean: (rows - mean).square().sum(-1, keepdim=True) / (rows.shape[-1] - 1),
        ),
        "cancelling_variance": Mutation(
            "the variance is E[x²] − E[x]², which a mean far from zero cancels",
            lambda rows, mean: (rows.square().mean(-1, keepdim=True) - mean.square()).clamp_min(0),
        ),
        "mean_square": Mutation(
            "the mean is not subtracted in the variance: root mean square", with_arguments(mean=torch.zeros_like)
        ),
        "overflowing_squares": Mutation(
            "squares are summed in the dtype, which float16 overflows",
            lambda rows, mean: (rows - mean).half().square().mean(-1, keepdim=True).to(rows.dtype),
            "",
            ("float16",),
        ),
    },
    root={
        "eps_of_a_millionth": Mutation(
            "eps is 10⁻⁶ where 10⁻⁵ was asked",
            with_arguments(eps=lambda eps: 1e-6 if eps == 1e-5 else eps),
            "",
            ("float32", "float64"),
        ),
        "eps_outside": Mutation("eps is added outside the root", lambda variance, eps: variance.sqrt() + eps),
        "fixed_eps": Mutation("eps is 10⁻⁵ whatever was asked", with_arguments(eps=lambda eps: 1e-5)),
        "no_eps": Mutation("there is no eps: equal features give NaN", with_arguments(eps=lambda eps: 0.0)),
        "divided_by_variance": Mutation(
            "the division is by the variance, not by its root", lambda variance, eps: variance + eps
        ),
    },
    finish={
        "added_after": Mutation(
            "the sum is added once more after the normalisation",
            lambda normalised, weight, bias, both: both + normalised * weight + bias,
        ),
        "no_weight": Mutation("the weight is left out", lambda normalised, weight, bias, both: normalised + bias),
        "no_bias": Mutation("the bias is left out", lambda normalised, weight, bias, both: normalised * weight),
        "weight_from_one": Mutation("one is added to the weight", with_arguments(weight=lambda weight: 1 + weight)),
        "leaves_features_beyond_1024": Mutation(
            "features beyond the 1,024th stay as they were",
            with_result(lambda output, both: torch.cat([output[..., :1024], both[..., 1024:]], -1)),
        ),
    },
)
