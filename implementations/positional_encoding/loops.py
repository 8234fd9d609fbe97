"""Positional encoding one number at a time, in Python's own arithmetic."""

import math

import torch
from torch import Tensor

from attnsuite import implementation


@implementation
def positional_encoding(
    x: Tensor,  # b l e
    *,
    offset: int = 0,
    base: float = 10000.0,
) -> Tensor:
    """Return x plus the sines and cosines of its positions from `offset` on, of x's shape and dtype.

    Raises ValueError for another rank than 3, a negative offset, or a base not above zero.
    """
    if x.dim() != 3 or offset < 0 or base <= 0:
        raise ValueError(f"no encoding of rank {x.dim()} from position {offset} on with base {base}")
    _, length, width = x.shape
    encoding = [[_wave(position, feature, width, base) for feature in range(width)]
                for position in range(offset, offset + length)]  # fmt: skip
    table = torch.tensor(encoding, dtype=torch.float64).reshape(length, width)
    return (x.to("cpu", torch.float64) + table).to(x.device, x.dtype)


def _wave(position: int, feature: int, width: int, base: float) -> float:
    angle = position / base ** (2 * (feature // 2) / width)
    return math.cos(angle) if feature % 2 else math.sin(angle)
