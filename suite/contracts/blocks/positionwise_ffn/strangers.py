"""Correct feed-forward networks in foreign styles."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional

from attnsuite.cases import Variant
from attnsuite.cases.computations import backwards, bias_as_row, bias_first, convolved, in_float64, linear, widened
from attnsuite.contracts.blocks.positionwise_ffn.deviations import Network

Affine = Callable[[Tensor, Tensor, Tensor], Tensor]


def _network(affine: Affine) -> Callable[..., Tensor]:
    def positionwise_ffn(
        x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, *, activation: str = "relu"
    ) -> Tensor:
        activate = getattr(functional, activation)
        return affine(activate(affine(x, w1, b1)), w2, b2)

    return positionwise_ffn


def strangers() -> list[Variant]:
    """One formula, many ways to map."""
    ways = {
        "convolutions": ("two convolutions with kernels of one step", convolved),
        "bias_first": ("loops over features that begin with the bias", bias_first),
        "bias_as_row": ("the bias is a row of the weights", bias_as_row),
        "backwards": ("einsum from the last feature to the first", backwards),
    }
    return [
        *(Variant(name, says, widened(Network, _network(affine))) for name, (says, affine) in ways.items()),
        Variant("linear", "torch's linear in the dtype itself, half types too", Network.checked(_network(linear))),
        Variant("float64_inside", "everything is computed in float64", in_float64(Network, _network(linear))),
    ]
