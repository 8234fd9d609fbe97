"""Dense and paged caches of `kv_cache_attention`: writing new tokens, and the keys that queries may attend to."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from attnsuite.implementations.kv_cache_attention._checks import Window


def append(cache: Tensor, new: Tensor, lengths: Sequence[int], table: Tensor | None) -> None:
    """Write new keys or values, b l g e, behind the valid slots of each item."""
    if not new.numel():
        return
    start = torch.tensor(lengths, device=cache.device)[:, None]
    slots = start + torch.arange(new.shape[1], device=cache.device)  # b l
    size = cache.shape[1]
    pages = torch.arange(len(new), device=cache.device)[:, None] if table is None else table.gather(1, slots // size)
    cache[pages.long(), slots % size] = new


def dense(cache: Tensor, longest: int, table: Tensor | None) -> Tensor:
    """The first slots of each item, b s g e: a view of a dense cache."""
    if table is None:
        return cache[:, :longest]
    pages = table[:, : -(-longest // cache.shape[1])].long().clamp(0, len(cache) - 1)  # entries beyond an item's end
    return cache[pages].flatten(1, 2)[:, :longest]


def reach(is_causal: bool, window: Window | None) -> tuple[float, float]:
    """The numbers of keys that a query sees before and after its own position; infinity is no bound."""
    left, right = window or (None, None)
    after = math.inf if right is None else right
    return math.inf if left is None else left, 0 if is_causal else after


def factor(scale: float | None, width: int) -> float:
    """The factor of the scores."""
    return 1 / math.sqrt(width) if scale is None else scale


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of sums: float32 for half types."""
    return torch.float64 if dtype == torch.float64 else torch.float32
