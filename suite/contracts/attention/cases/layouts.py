"""How a tensor lies in memory: the same numbers behind other strides, offsets and paddings."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

JUNK = 977.0
"""What stands in memory between and around the numbers: finite, and large enough to show when it is read."""


def contiguous(tensor: Tensor) -> Tensor:
    return tensor.contiguous()


def transposed_heads(tensor: Tensor) -> Tensor:
    """b s h e in memory, seen as b h s e: what a projection leaves behind."""
    return tensor.transpose(-2, -3).contiguous().transpose(-2, -3)


def column_major(tensor: Tensor) -> Tensor:
    """The last two axes exchanged in memory."""
    return tensor.mT.contiguous().mT


def strided(tensor: Tensor) -> Tensor:
    """Every second element of a wider tensor."""
    wide = torch.full((*tensor.shape[:-1], 2 * tensor.shape[-1]), _junk(tensor), dtype=tensor.dtype)
    wide[..., ::2] = tensor
    return wide[..., ::2]


def sliced(tensor: Tensor) -> Tensor:
    """A slice of a tensor with more rows and columns, as of a cache or a packed projection."""
    *lead, rows, columns = tensor.shape
    wide = torch.full((*lead, rows + 3, columns + 5), _junk(tensor), dtype=tensor.dtype)
    wide[..., 1 : rows + 1, 2 : columns + 2] = tensor
    return wide[..., 1 : rows + 1, 2 : columns + 2]


def offset(tensor: Tensor) -> Tensor:
    """Contiguous, but not at the start of its storage, and at an odd address."""
    flat = torch.full((tensor.numel() + 8,), _junk(tensor), dtype=tensor.dtype)
    flat[3 : 3 + tensor.numel()] = tensor.reshape(-1)
    return flat[3 : 3 + tensor.numel()].view(tensor.shape)


def expanded(tensor: Tensor) -> Tensor:
    """Stride 0 along batch and heads: every item is the first one."""
    return tensor[:1, :1].expand(tensor.shape)


def expanded_rows(tensor: Tensor) -> Tensor:
    """Stride 0 along rows: every row is the first one, as of a gradient that came from a sum."""
    return tensor[..., :1, :].expand(tensor.shape)


def expanded_everywhere(tensor: Tensor) -> Tensor:
    """Stride 0 along every axis: one number, as the gradient of a sum sends."""
    return tensor[(slice(0, 1),) * tensor.dim()].expand(tensor.shape)


def padded(tensor: Tensor) -> Tensor:
    """Contiguous within a much larger storage: reading past the end finds junk, not a fault."""
    flat = torch.full((tensor.numel() * 5 + 4096,), _junk(tensor), dtype=tensor.dtype)
    start = 2 * tensor.numel()
    flat[start : start + tensor.numel()] = tensor.reshape(-1)
    return flat[start : start + tensor.numel()].view(tensor.shape)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    function.__name__: function
    for function in (
        contiguous, transposed_heads, column_major, strided, sliced, offset, expanded, expanded_rows, expanded_everywhere, padded,
    )
}  # fmt: skip


def _junk(tensor: Tensor) -> float | bool:
    return True if tensor.dtype == torch.bool else JUNK
