"""Rotary embedding of neighbouring features as PyTorch operations, in float64 where x is and in float32 else."""

import torch
from torch import Tensor

from attnsuite import implementation


@implementation
def rotary_embedding(
    x: Tensor,  # … l e
    *,
    offset: int = 0,
    base: float = 10000.0,
) -> Tensor:
    """Return x with neighbouring features rotated by their position from `offset` on, of x's shape and dtype.

    Raises ValueError, before any work, for rank 1, an odd width, a negative offset, or a base not above zero.
    """
    if x.dim() < 2 or x.shape[-1] % 2:
        raise ValueError(f"x should be of rank 2 or more and of an even width, not of shape {tuple(x.shape)}")
    if offset < 0:
        raise ValueError(f"offset should be 0 or more, not {offset}")
    if not base > 0:
        raise ValueError(f"base should be above 0, not {base}")
    length, width = x.shape[-2:]
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    positions = torch.arange(offset, offset + length, dtype=wide, device=x.device).unsqueeze(1)  # l 1
    frequencies = base ** (-torch.arange(0, width, 2, dtype=wide, device=x.device) / width)  # e/2
    angles = positions * frequencies  # l e/2
    first, second = x.to(wide).unflatten(-1, (-1, 2)).unbind(-1)  # … l e/2
    cosines, sines = angles.cos(), angles.sin()
    rotated = torch.stack([first * cosines - second * sines, first * sines + second * cosines], dim=-1)
    return rotated.flatten(-2).to(x.dtype)
