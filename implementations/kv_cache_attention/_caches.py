"""Dense and paged caches of `kv_cache_attention`: writing new tokens, and the keys that queries may attend to."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from attnsuite.implementations.kv_cache_attention._checks import Window

Scales = tuple[Tensor | None, Tensor | None]
"""Of keys and of values, b s g or p z g; None where caches have the query's dtype."""


def append_pair(
    caches: tuple[Tensor, Tensor],
    scales: Scales,
    new: tuple[Tensor | None, Tensor | None],
    lengths: list[int],
    table: Tensor | None,
) -> list[int]:
    """Write new keys and values, in int8 with their scales where caches have scales; the lengths afterwards."""
    for cache, of_cache, tokens in zip(caches, scales, new, strict=True):
        if tokens is not None and of_cache is not None:
            numbers, of_tokens = quantised(tokens)
            append(cache, numbers, lengths, table)
            append(of_cache, of_tokens, lengths, table)
        elif tokens is not None:
            append(cache, tokens, lengths, table)
    return lengths if new[0] is None else [length + new[0].shape[1] for length in lengths]


def quantised(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors as int8 numbers and one float32 scale for each."""
    vectors = vectors.float()
    scales = vectors.abs().amax(-1) / vectors.new_tensor(127.0)  # a tensor: on CUDA a number would be inverted first
    return (vectors / scales[..., None]).nan_to_num_(0.0).round_().to(torch.int8), scales


def vectors(cache: Tensor, scales: Tensor | None, dtype: torch.dtype) -> Tensor:
    """What a cache stands for, in a wide dtype."""
    return cache.to(dtype) if scales is None else cache.to(dtype) * scales.to(dtype)[..., None]


def append(cache: Tensor, new: Tensor, lengths: Sequence[int], table: Tensor | None) -> None:
    """Write new keys or values, b l g e, or their scales, b l g, behind the valid slots of each item."""
    if not new.numel():
        return
    start = torch.tensor(lengths, device=cache.device)[:, None]
    slots = start + torch.arange(new.shape[1], device=cache.device)  # b l
    size = cache.shape[1]
    pages = torch.arange(len(new), device=cache.device)[:, None] if table is None else table.gather(1, slots // size)
    cache[pages.long(), slots % size] = new


def dense(cache: Tensor, longest: int, table: Tensor | None) -> Tensor:
    """The first slots of each item, b s g e or b s g: a view of a dense cache."""
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
