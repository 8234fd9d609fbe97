"""Residual connections with exactly one named mistake each."""

from __future__ import annotations

import torch
from torch import Tensor

from suite.asking import Deviation
from suite.asking.layouts import in_memory_order
from suite.asking.staged import Mistake, Staged, imprecise, instead_of, mistakes


class Residual(Staged):
    """The formula, step by step."""

    def __call__(
        self, x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, *, norm: str = "layer", eps: float = 1e-5
    ) -> Tensor:
        norm = self.check_norm(norm)
        self.check(x, y, weight, bias)
        dtype, wide = x.dtype, self.wide(x)
        both = self.add(x.to(wide), y.to(wide))
        rows = both if norm == "layer" else self.gather(both)  # ... n: what is normalised together
        mean = rows.mean(-1, keepdim=True)
        normalised = (rows - mean) / self.root(self.variance(rows, mean), eps)
        if norm == "batch":
            normalised = normalised.mT.reshape(both.shape)
        return self.finish(normalised, weight.to(wide), bias.to(wide), both).to(dtype)

    @staticmethod
    def check_norm(norm: str) -> str:
        if norm not in ("layer", "batch"):
            raise ValueError(norm)
        return norm

    @staticmethod
    def check(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor) -> None:
        if x.shape != y.shape or not weight.shape == bias.shape == x.shape[-1:]:
            raise ValueError("shapes differ")

    @staticmethod
    def add(x: Tensor, y: Tensor) -> Tensor:
        return x + y

    @staticmethod
    def gather(both: Tensor) -> Tensor:
        rows = both.flatten(0, -2).mT  # e n
        if rows.shape[-1] < 2:
            raise ValueError("one position")
        return rows

    @staticmethod
    def variance(rows: Tensor, mean: Tensor) -> Tensor:
        return (rows - mean).square().mean(-1, keepdim=True)

    @staticmethod
    def root(variance: Tensor, eps: float) -> Tensor:
        return (variance + eps).sqrt()

    @staticmethod
    def finish(normalised: Tensor, weight: Tensor, bias: Tensor, both: Tensor) -> Tensor:
        return normalised * weight + bias


@instead_of(Residual.add, "the residual is left out: only y is normalised")
def no_residual(x: Tensor, y: Tensor) -> Tensor:
    return y.clone()


@instead_of(Residual.add, "the residual is added twice")
def double_residual(x: Tensor, y: Tensor) -> Tensor:
    return 2 * x + y


@instead_of(Residual.add, "positions beyond the 128th are answered like the 128th")
def repeats_position_beyond_128(x: Tensor, y: Tensor) -> Tensor:
    both = x + y
    if both.shape[-2] > 128:
        both[..., 128:, :] = both[..., 127:128, :]
    return both


IN_FINISH = mistakes(
    Residual.finish,
    added_after=Mistake(
        "the sum is added once more after the normalisation",
        lambda normalised, weight, bias, both: both + normalised * weight + bias,
    ),
    no_weight=Mistake("the weight is left out", lambda normalised, weight, bias, both: normalised + bias),
    no_bias=Mistake("the bias is left out", lambda normalised, weight, bias, both: normalised * weight),
    weight_from_one=Mistake(
        "one is added to the weight", lambda normalised, weight, bias, both: normalised * (1 + weight) + bias
    ),
)


@instead_of(Residual.finish, "features beyond the 1,024th stay as they were")
def leaves_features_beyond_1024(normalised: Tensor, weight: Tensor, bias: Tensor, both: Tensor) -> Tensor:
    return torch.cat([(normalised * weight + bias)[..., :1024], both[..., 1024:]], -1)


IN_VARIANCE = mistakes(
    Residual.variance,
    unbiased_variance=Mistake(
        "the variance is divided by the count less one",
        lambda rows, mean: (rows - mean).square().sum(-1, keepdim=True) / (rows.shape[-1] - 1),
    ),
    cancelling_variance=Mistake(
        "the variance is E[x²] − E[x]², which a mean far from zero cancels",
        lambda rows, mean: (rows.square().mean(-1, keepdim=True) - mean.square()).clamp_min(0),
    ),
    mean_square=Mistake(
        "the mean is not subtracted in the variance: root mean square",
        lambda rows, mean: rows.square().mean(-1, keepdim=True),
    ),
    overflowing_squares=Mistake(
        "squares are summed in the dtype, which float16 overflows",
        lambda rows, mean: (rows - mean).half().square().mean(-1, keepdim=True).to(rows.dtype),
        dtypes=("float16",),
    ),
)


IN_ROOT = mistakes(
    Residual.root,
    eps_outside=Mistake("eps is added outside the root", lambda variance, eps: variance.sqrt() + eps),
    fixed_eps=Mistake("eps is 10⁻⁵ whatever was asked", lambda variance, eps: (variance + 1e-5).sqrt()),
    no_eps=Mistake("there is no eps: equal features give NaN", lambda variance, eps: variance.sqrt()),
    divided_by_variance=Mistake(
        "the division is by the variance, not by its root", lambda variance, eps: variance + eps
    ),
)


@instead_of(Residual.gather, "batch normalisation takes the positions of each item apart", source="documents, E38")
def items_apart(both: Tensor) -> Tensor:
    if both.dim() < 3:
        return Residual.gather(both)
    centred = both - both.mean(-2, keepdim=True)
    return (centred / (centred.square().mean(-2, keepdim=True) + 1e-12).sqrt()).flatten(0, -2).mT


@instead_of(Residual.gather, "batch normalisation refuses what has not items, positions and features")
def rank_3_only(both: Tensor) -> Tensor:
    if both.dim() != 3:
        raise ValueError("another rank")
    return Residual.gather(both)


@instead_of(Residual.check_norm, "layer normalisation is taken whatever was asked")
def always_layer(norm: str) -> str:
    return "layer"


@instead_of(Residual.check, "what broadcasts is accepted")
def broadcasts(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor) -> None:
    torch.broadcast_shapes(x.shape, y.shape, weight.shape, bias.shape)


def fixed_eps_in(named: str) -> Deviation:
    """What one norm alone ignores."""

    def normalised(*tensors: Tensor, norm: str = "layer", eps: float = 1e-5) -> Tensor:
        return Residual()(*tensors, norm=norm, eps=1e-5 if norm == named else eps)

    return Deviation(f"fixed_eps_in_{named}", f"eps is 10⁻⁵ in {named} normalisation, whatever was asked", normalised)


CONTROLS = {"correct": Residual()}
OTHERS = [in_memory_order(Residual()), *imprecise(Residual), *map(fixed_eps_in, ("layer", "batch"))]
