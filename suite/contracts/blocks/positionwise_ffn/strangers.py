"""Correct feed-forward networks in foreign styles."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional

from suite.asking import Stranger
from suite.asking.foreign import backwards, bias_as_row, bias_first, convolved, in_float64, widened
from suite.contracts.blocks.positionwise_ffn.deviations import Network

Affine = Callable[[Tensor, Tensor, Tensor], Tensor]


def _network(affine: Affine) -> Callable[..., Tensor]:
    def positionwise_ffn(
        x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, *, activation: str = "relu"
    ) -> Tensor:
        Network.check(x, w1, b1, w2, b2)
        activate = getattr(functional, Network.check_activation(activation))
        return affine(activate(affine(x, w1, b1)), w2, b2)

    return positionwise_ffn


def _linear(x: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
    return functional.linear(x, weights.mT, bias)


def strangers() -> list[Stranger]:
    """One formula, many ways to map."""
    return [
        Stranger("convolutions", "two convolutions with kernels of one step", widened(_network(convolved))),
        Stranger("linear", "torch's linear in the dtype itself, half types too", _network(_linear)),
        Stranger("bias_first", "loops over features that begin with the bias", widened(_network(bias_first))),
        Stranger("bias_as_row", "the bias is a row of the weights", widened(_network(bias_as_row))),
        Stranger("backwards", "einsum from the last feature to the first", widened(_network(backwards))),
        Stranger("float64_inside", "everything is computed in float64", in_float64(_network(_linear))),
    ]
