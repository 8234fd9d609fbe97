"""Positional encoding as PyTorch operations, the angles in float64 where x is and in float32 else."""

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations._checks import check_axes


@implementation
def positional_encoding(
    x: Tensor,  # b l e
    *,
    offset: int = 0,
    base: float = 10000.0,
) -> Tensor:
    """Return x plus the sines and cosines of its positions from `offset` on, of x's shape and dtype.

    Raises ValueError, before any work, for another rank than 3, a negative offset, or a base not above zero.
    """
    check_axes(x=(x, "b l e"))
    if offset < 0:
        raise ValueError(f"offset should be 0 or more, not {offset}")
    if not base > 0:
        raise ValueError(f"base should be above 0, not {base}")
    length, width = x.shape[1:]
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    positions = torch.arange(offset, offset + length, dtype=wide, device=x.device).unsqueeze(1)  # l 1
    frequencies = base ** (-torch.arange(0, width, 2, dtype=wide, device=x.device) / width)  # e/2
    angles = positions * frequencies  # l e/2
    encoding = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]
    return (x.to(wide) + encoding).to(x.dtype)
