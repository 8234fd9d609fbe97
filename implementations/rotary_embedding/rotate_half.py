"""Rotary embedding of both halves of the features, as in Hugging Face's Llama: x · cos + rotate_half(x) · sin."""

import torch
from torch import Tensor

from attnsuite import implementation


@implementation(conventions={"pairs": "halves"})
def rotary_embedding(
    x: Tensor,  # … l e
    *,
    offset: int = 0,
    base: float = 10000.0,
) -> Tensor:
    """Return x with each feature j and j + e/2 rotated by its position from `offset` on, of x's shape and dtype.

    Sines and cosines are rounded to x's dtype. Raises ValueError for rank 1, an odd width, a negative offset, or a base
    not above zero.
    """
    if x.dim() < 2 or x.shape[-1] % 2 or offset < 0 or base <= 0:
        raise ValueError(f"no rotation of shape {tuple(x.shape)} from position {offset} on with base {base}")
    length, width = x.shape[-2:]
    wide = torch.promote_types(x.dtype, torch.float32)
    inverse = 1.0 / base ** (torch.arange(0, width, 2, dtype=wide, device=x.device) / width)
    angles = torch.outer(torch.arange(offset, offset + length, dtype=wide, device=x.device), inverse)
    angles = torch.cat([angles, angles], dim=-1)  # l e
    return x * angles.cos().to(x.dtype) + _rotate_half(x) * angles.sin().to(x.dtype)


def _rotate_half(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)
