"""The feed-forward network one number at a time, in Python's own arithmetic."""

import math

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations._checks import check_axes, check_choice

Row = list[float]


@implementation
def positionwise_ffn(
    x: Tensor,  # ... e
    w1: Tensor,  # e f
    b1: Tensor,  # f
    w2: Tensor,  # f v
    b2: Tensor,  # v
    *,
    activation: str = "relu",
) -> Tensor:
    """Return activation(x w1 + b1) w2 + b2, of shape ... v and x's dtype.

    Raises ValueError for widths that do not chain and for unknown activations.
    """
    check_choice("activation", activation, ("relu", "gelu"))
    check_axes(x=(x, "... e"), w1=(w1, "e f"), b1=(b1, "f"), w2=(w2, "f v"), b2=(b2, "v"))
    activate = _relu if activation == "relu" else _gelu
    first, second = w1.T.tolist(), w2.T.tolist()
    output = []
    for position in x.reshape(math.prod(x.shape[:-1]), len(w1)).tolist():
        inner = [activate(number) for number in _linear(position, first, b1.tolist())]
        output.append(_linear(inner, second, b2.tolist()))
    return torch.tensor(output, dtype=torch.float64).reshape(*x.shape[:-1], len(b2)).to(x.device, x.dtype)


def _linear(row: Row, columns: list[Row], bias: Row) -> Row:
    return [math.fsum([b, *(x * w for x, w in zip(row, ws, strict=True))]) for ws, b in zip(columns, bias, strict=True)]


def _relu(x: float) -> float:
    return max(x, 0.0)


def _gelu(x: float) -> float:
    return x * math.erfc(-x / math.sqrt(2)) / 2
