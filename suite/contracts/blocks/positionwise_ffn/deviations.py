"""Feed-forward networks with exactly one named mistake each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu, silu

from suite.asking import Deviation
from suite.asking.layouts import in_memory_order
from suite.asking.staged import Staged, collected, imprecise, instead_of


class Network(Staged):
    """The formula, step by step."""

    def __call__(
        self, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, *, activation: str = "relu"
    ) -> Tensor:
        activation = self.check_activation(activation)
        self.check(x, w1, b1, w2, b2)
        dtype, wide = x.dtype, self.wide(x)
        x, w1, b1, w2, b2 = (tensor.to(wide) for tensor in (x, w1, b1, w2, b2))
        hidden = self.first(x, w1, b1)
        hidden = self.relu(hidden) if activation == "relu" else self.gelu(hidden)
        return self.second(hidden, w2, b2).to(dtype)

    @staticmethod
    def check_activation(activation: str) -> str:
        if activation not in ("relu", "gelu"):
            raise ValueError(activation)
        return activation

    @staticmethod
    def check(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> None:
        if (
            x.shape[-1] != w1.shape[0]
            or w1.shape[1] != w2.shape[0]
            or b1.shape != w1.shape[1:]
            or b2.shape != w2.shape[1:]
        ):
            raise ValueError("widths do not chain")

    @staticmethod
    def first(x: Tensor, w1: Tensor, b1: Tensor) -> Tensor:
        return x @ w1 + b1

    @staticmethod
    def relu(hidden: Tensor) -> Tensor:
        return hidden.relu()

    @staticmethod
    def gelu(hidden: Tensor) -> Tensor:
        return gelu(hidden)

    @staticmethod
    def second(hidden: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
        return hidden @ w2 + b2


@instead_of(Network.gelu, "GELU is taken in its tanh form", source="documents, E45", dtypes=("float32", "float64"))
def tanh_gelu(hidden: Tensor) -> Tensor:
    return gelu(hidden, approximate="tanh")


@instead_of(Network.gelu, "GELU is taken as x·sigmoid(1.702 x)")
def quick_gelu(hidden: Tensor) -> Tensor:
    return hidden * (1.702 * hidden).sigmoid()


@instead_of(Network.gelu, "SiLU is taken for GELU")
def silu_for_gelu(hidden: Tensor) -> Tensor:
    return silu(hidden)


@instead_of(Network.gelu, "ReLU is taken for GELU")
def relu_for_gelu(hidden: Tensor) -> Tensor:
    return hidden.relu()


@instead_of(Network.relu, "GELU is taken for ReLU")
def gelu_for_relu(hidden: Tensor) -> Tensor:
    return gelu(hidden)


@instead_of(Network.relu, "there is no activation", source="documents, E5")
def linear(hidden: Tensor) -> Tensor:
    return hidden.clone()


@instead_of(Network.relu, "ReLU leaks a hundredth of what is negative")
def leaky(hidden: Tensor) -> Tensor:
    return torch.where(hidden > 0, hidden, hidden / 100)


@instead_of(Network.relu, "ReLU is cut off at 6")
def cut_at_six(hidden: Tensor) -> Tensor:
    return hidden.clamp(0, 6)


@instead_of(Network.first, "the first bias is left out")
def no_first_bias(x: Tensor, w1: Tensor, b1: Tensor) -> Tensor:
    return x @ w1


@instead_of(Network.first, "the first bias is added twice")
def double_first_bias(x: Tensor, w1: Tensor, b1: Tensor) -> Tensor:
    return x @ w1 + 2 * b1


@instead_of(Network.first, "the first weights are transposed where they are square")
def transposed_first(x: Tensor, w1: Tensor, b1: Tensor) -> Tensor:
    return x @ (w1.mT if w1.shape[0] == w1.shape[1] else w1) + b1


@instead_of(Network.first, "positions beyond the 128th are answered like the 128th")
def repeats_position_beyond_128(x: Tensor, w1: Tensor, b1: Tensor) -> Tensor:
    hidden = x @ w1 + b1
    if hidden.dim() > 1 and hidden.shape[-2] > 128:
        hidden[..., 128:, :] = hidden[..., 127:128, :]
    return hidden


@instead_of(Network.first, "the positions of the first item serve all items")
def positions_of_first_item(x: Tensor, w1: Tensor, b1: Tensor) -> Tensor:
    return (x[:1].expand_as(x) if x.dim() > 2 else x) @ w1 + b1


@instead_of(Network.second, "the second bias is left out")
def no_second_bias(hidden: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    return hidden @ w2


@instead_of(Network.second, "the output is rectified too")
def rectified_output(hidden: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    return (hidden @ w2 + b2).relu()


@instead_of(Network.second, "the second weights are transposed where they are square")
def transposed_second(hidden: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    return hidden @ (w2.mT if w2.shape[0] == w2.shape[1] else w2) + b2


@instead_of(Network.second, "hidden numbers beyond the 256th are left out")
def drops_hidden_beyond_256(hidden: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    return hidden[..., :256] @ w2[:256] + b2


@instead_of(Network.check, "a bias of one number is broadcast")
def broadcasts_bias(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> None:
    Network.check(x, w1, b1.expand(w1.shape[1]) if b1.numel() == 1 else b1, w2, b2)


@instead_of(Network.check_activation, "an unknown activation is taken for GELU")
def accepts_any_activation(activation: str) -> str:
    return activation if activation == "relu" else "gelu"


def controls() -> dict[str, Callable[..., Any]]:
    """The computation without any mistake."""
    return {"correct": Network()}


def deviations() -> list[Deviation]:
    """All deviations, sorted by name."""
    return collected([*globals().values(), in_memory_order(Network()), *imprecise(Network)])
