"""Feed-forward networks with exactly one named mistake each."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import gelu, silu

from suite.asking.layouts import in_memory_order
from suite.asking.staged import Mistake, Staged, imprecise, instead_of, mistakes


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


IN_GELU = mistakes(
    Network.gelu,
    tanh_gelu=Mistake(
        "GELU is taken in its tanh form",
        lambda hidden: gelu(hidden, approximate="tanh"),
        source="documents, E45",
        dtypes=("float32", "float64"),
    ),
    quick_gelu=Mistake("GELU is taken as x·sigmoid(1.702 x)", lambda hidden: hidden * (1.702 * hidden).sigmoid()),
    silu_for_gelu=Mistake("SiLU is taken for GELU", lambda hidden: silu(hidden)),
    relu_for_gelu=Mistake("ReLU is taken for GELU", lambda hidden: hidden.relu()),
)


IN_RELU = mistakes(
    Network.relu,
    gelu_for_relu=Mistake("GELU is taken for ReLU", lambda hidden: gelu(hidden)),
    linear=Mistake("there is no activation", lambda hidden: hidden.clone(), source="documents, E5"),
    leaky=Mistake(
        "ReLU leaks a hundredth of what is negative", lambda hidden: torch.where(hidden > 0, hidden, hidden / 100)
    ),
    cut_at_six=Mistake("ReLU is cut off at 6", lambda hidden: hidden.clamp(0, 6)),
)


IN_FIRST = mistakes(
    Network.first,
    no_first_bias=Mistake("the first bias is left out", lambda x, w1, b1: x @ w1),
    double_first_bias=Mistake("the first bias is added twice", lambda x, w1, b1: x @ w1 + 2 * b1),
    transposed_first=Mistake(
        "the first weights are transposed where they are square",
        lambda x, w1, b1: x @ (w1.mT if w1.shape[0] == w1.shape[1] else w1) + b1,
    ),
    positions_of_first_item=Mistake(
        "the positions of the first item serve all items",
        lambda x, w1, b1: (x[:1].expand_as(x) if x.dim() > 2 else x) @ w1 + b1,
    ),
)


@instead_of(Network.first, "positions beyond the 128th are answered like the 128th")
def repeats_position_beyond_128(x: Tensor, w1: Tensor, b1: Tensor) -> Tensor:
    hidden = x @ w1 + b1
    if hidden.dim() > 1 and hidden.shape[-2] > 128:
        hidden[..., 128:, :] = hidden[..., 127:128, :]
    return hidden


IN_SECOND = mistakes(
    Network.second,
    no_second_bias=Mistake("the second bias is left out", lambda hidden, w2, b2: hidden @ w2),
    rectified_output=Mistake("the output is rectified too", lambda hidden, w2, b2: (hidden @ w2 + b2).relu()),
    transposed_second=Mistake(
        "the second weights are transposed where they are square",
        lambda hidden, w2, b2: hidden @ (w2.mT if w2.shape[0] == w2.shape[1] else w2) + b2,
    ),
    drops_hidden_beyond_256=Mistake(
        "hidden numbers beyond the 256th are left out", lambda hidden, w2, b2: hidden[..., :256] @ w2[:256] + b2
    ),
)


@instead_of(Network.check, "a bias of one number is broadcast")
def broadcasts_bias(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> None:
    Network.check(x, w1, b1.expand(w1.shape[1]) if b1.numel() == 1 else b1, w2, b2)


@instead_of(Network.check_activation, "an unknown activation is taken for GELU")
def accepts_any_activation(activation: str) -> str:
    return activation if activation == "relu" else "gelu"


CONTROLS = {"correct": Network()}
OTHERS = [in_memory_order(Network()), *imprecise(Network)]
