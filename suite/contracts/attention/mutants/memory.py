"""What a kernel finds in memory that takes a tensor's strides for others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attnsuite.contracts.attention.lazily import torch

if TYPE_CHECKING:
    from torch import Tensor


def misread(tensor: Tensor, strides: Sequence[int], offset: int) -> Tensor:
    """What other strides find in the storage, wrapping around its end; the gradient is the tensor's own."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    if count == 0 or tensor.numel() == 0:
        return tensor
    place = torch.zeros((), dtype=torch.long, device=tensor.device) + offset
    for size, stride in zip(tensor.shape, strides, strict=True):
        place = place.unsqueeze(-1) + torch.arange(size, device=tensor.device) * stride
    found = torch.as_strided(tensor.detach(), (count,), (1,), 0)[place % count]
    if not tensor.requires_grad:
        return found
    finite = tensor.nan_to_num(neginf=0.0)
    return found + (finite - finite.detach())


def as_contiguous(tensor: Tensor) -> Tensor:
    """What a kernel sees that takes a tensor for contiguous."""
    if tensor.is_contiguous():
        return tensor
    return misread(tensor, torch.empty(tensor.shape, device="meta").stride(), int(tensor.storage_offset()))
