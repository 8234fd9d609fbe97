"""Changes of tensors that mutants make: axes swapped, entries repeated, numbers read as they lie in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:  # `attnsuite list` reads contracts without PyTorch
    import torch
    from torch import Tensor

Change: TypeAlias = "Callable[[Tensor], Tensor]"


def is_tensor(value: object) -> bool:
    """Whether a value is a tensor of PyTorch."""
    import torch

    return isinstance(value, torch.Tensor)


def turned(x: Tensor) -> Tensor:
    """Transposed where it is square."""
    return x.mT if x.dim() > 1 and x.shape[-1] == x.shape[-2] else x


def swapped_where_equal(axis: int = 0, other: int = 1, *, rank: int) -> Change:
    """Two axes of equal length are swapped in tensors of this rank."""
    return lambda x: x.transpose(axis, other) if x.dim() == rank and x.shape[axis] == x.shape[other] else x


def first_for_all(axis: int = 0, *, from_rank: int = 0) -> Change:
    """The first entry along an axis replaces all, in tensors of at least `from_rank` axes."""
    return lambda x: x.narrow(axis, 0, 1).expand_as(x) if x.dim() >= from_rank and x.shape[axis] else x


def only_first(count: int, axis: int) -> Change:
    """Only the first `count` entries along an axis."""
    return lambda x: x.narrow(axis, 0, min(count, x.shape[axis]))


def _places(x: Tensor, axis: int) -> Tensor:
    """The positions along an axis, from 0."""
    import torch

    return torch.arange(x.shape[axis], device=x.device)


def repeated_beyond(count: int, axis: int) -> Change:
    """The entries along an axis beyond the first `count` are copies of the last of these."""

    def change(x: Tensor) -> Tensor:
        few = x.dim() < -axis or x.shape[axis] <= count
        return x if few else x.index_select(axis, _places(x, axis).clamp_max(count - 1))

    return change


def filled_beyond(count: int, number: float) -> Change:
    """The entries of the last axis beyond the first `count` become another number."""
    return lambda x: x.masked_fill(_places(x, -1) >= count, number)


def hidden_last(count: int) -> Change:
    """The last score becomes −∞ where there are more than `count`."""
    return lambda scores: filled_beyond(scores.shape[-1] - 1, -math.inf)(scores) if scores.shape[-1] > count else scores


def as_it_lies(x: Tensor) -> Tensor:
    """Read in the order in which it lies in memory, whatever the strides."""
    return x.as_strided(x.shape, x.new_empty(x.shape, device="meta").stride())


def as_they_lie(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Several tensors by name, each read in the order in which it lies in memory."""
    return {name: as_it_lies(tensor) for name, tensor in tensors.items()}


def rounded(dtype: torch.dtype) -> Change:
    """Rounded to a dtype, and back again."""
    return lambda x: x.to(dtype).to(x.dtype)


def for_all_items(x: Tensor, query: Tensor) -> Tensor:
    """A single item is repeated for all items of the query."""
    return x.expand(len(query), *x.shape[1:]) if len(x) == 1 else x
