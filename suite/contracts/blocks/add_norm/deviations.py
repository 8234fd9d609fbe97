"""Residual connections with exactly one named mistake each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from suite.asking import Deviation
from suite.asking.layouts import in_memory_order
from suite.asking.staged import Staged, collected, imprecise, instead_of


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


@instead_of(Residual.finish, "the sum is added once more after the normalisation")
def added_after(normalised: Tensor, weight: Tensor, bias: Tensor, both: Tensor) -> Tensor:
    return both + normalised * weight + bias


@instead_of(Residual.finish, "the weight is left out")
def no_weight(normalised: Tensor, weight: Tensor, bias: Tensor, both: Tensor) -> Tensor:
    return normalised + bias


@instead_of(Residual.finish, "the bias is left out")
def no_bias(normalised: Tensor, weight: Tensor, bias: Tensor, both: Tensor) -> Tensor:
    return normalised * weight


@instead_of(Residual.finish, "one is added to the weight")
def weight_from_one(normalised: Tensor, weight: Tensor, bias: Tensor, both: Tensor) -> Tensor:
    return normalised * (1 + weight) + bias


@instead_of(Residual.finish, "features beyond the 1,024th stay as they were")
def leaves_features_beyond_1024(normalised: Tensor, weight: Tensor, bias: Tensor, both: Tensor) -> Tensor:
    return torch.cat([(normalised * weight + bias)[..., :1024], both[..., 1024:]], -1)


@instead_of(Residual.variance, "the variance is divided by the count less one")
def unbiased_variance(rows: Tensor, mean: Tensor) -> Tensor:
    return (rows - mean).square().sum(-1, keepdim=True) / (rows.shape[-1] - 1)


@instead_of(Residual.variance, "the variance is E[x²] − E[x]², which a mean far from zero cancels")
def cancelling_variance(rows: Tensor, mean: Tensor) -> Tensor:
    return (rows.square().mean(-1, keepdim=True) - mean.square()).clamp_min(0)


@instead_of(Residual.variance, "the mean is not subtracted in the variance: root mean square")
def mean_square(rows: Tensor, mean: Tensor) -> Tensor:
    return rows.square().mean(-1, keepdim=True)


@instead_of(Residual.variance, "squares are summed in the dtype, which float16 overflows", dtypes=("float16",))
def overflowing_squares(rows: Tensor, mean: Tensor) -> Tensor:
    return (rows - mean).half().square().mean(-1, keepdim=True).to(rows.dtype)


@instead_of(Residual.root, "eps is added outside the root")
def eps_outside(variance: Tensor, eps: float) -> Tensor:
    return variance.sqrt() + eps


@instead_of(Residual.root, "eps is 10⁻⁵ whatever was asked")
def fixed_eps(variance: Tensor, eps: float) -> Tensor:
    return (variance + 1e-5).sqrt()


@instead_of(Residual.root, "there is no eps: equal features give NaN")
def no_eps(variance: Tensor, eps: float) -> Tensor:
    return variance.sqrt()


@instead_of(Residual.root, "the division is by the variance, not by its root")
def divided_by_variance(variance: Tensor, eps: float) -> Tensor:
    return variance + eps


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


def controls() -> dict[str, Callable[..., Any]]:
    """The computation without any mistake."""
    return {"correct": Residual()}


def deviations() -> list[Deviation]:
    """All deviations, sorted by name."""
    by_norm = map(fixed_eps_in, ("layer", "batch"))
    return collected([*globals().values(), *by_norm, in_memory_order(Residual()), *imprecise(Residual)])
