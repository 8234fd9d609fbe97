"""Checks of the inputs of `kv_cache_attention`. Each raises ValueError in one line, before any work."""

import torch
from torch import Tensor

Window = tuple[int | None, int | None]


def check(
    query: Tensor,  # b l h e
    key_cache: Tensor,  # b s g e, or p z g e
    value_cache: Tensor,
    cache_seqlens: Tensor,  # b
    key: Tensor | None,  # b l g e
    value: Tensor | None,
    block_table: Tensor | None = None,  # b m
    window: Window | None = None,
    scales: tuple[Tensor | None, Tensor | None] = (None, None),  # b s g, or p z g
) -> list[int]:
    """Return the number of valid slots of each item before the append. Raises ValueError for bad input."""
    _check_tensors(query, key_cache, value_cache, key, value, scales[0] is not None)
    if (scales[0] is None) != (scales[1] is None):
        raise ValueError("key_scales and value_scales belong together, but 1 of 2 is None")
    for name, tensor in zip(("key_scales", "value_scales"), scales, strict=True):
        expected = tuple(key_cache.shape[:3])
        if tensor is not None and (tuple(tensor.shape) != expected or tensor.dtype != torch.float32):
            raise ValueError(f"{name} is {tensor.dtype} of {tuple(tensor.shape)}, expected torch.float32 of {expected}")
    for name, tensor, axes in (("cache_seqlens", cache_seqlens, 1), ("block_table", block_table, 2)):
        if tensor is not None and (tensor.dtype != torch.int32 or tensor.dim() != axes or len(tensor) != len(query)):
            expected = f"torch.int32 with {axes} axes and {len(query)} items"
            raise ValueError(f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)}, expected {expected}")
    if block_table is None and len(key_cache) != len(query):
        raise ValueError(f"key_cache has {len(key_cache)} items, expected {len(query)} as query has")
    if window is not None and (len(window) != 2 or any(width is not None and width < 0 for width in window)):
        raise ValueError(f"window is {window}, expected (left, right), each None or at least 0")
    lengths: list[int] = cache_seqlens.tolist()
    _check_lengths(lengths, 0 if key is None else key.shape[1], key_cache, block_table)
    return lengths


def _check_tensors(
    query: Tensor, key_cache: Tensor, value_cache: Tensor, key: Tensor | None, value: Tensor | None, int8: bool
) -> None:
    if (key is None) != (value is None):
        raise ValueError(f"key and value belong together, but 1 of 2 is None: {'value' if value is None else 'key'}")
    if query.dim() != 4 or key_cache.dim() != 4 or query.shape[3] != key_cache.shape[3]:
        shapes = f"query {tuple(query.shape)} and key_cache {tuple(key_cache.shape)}"
        raise ValueError(f"{shapes} should have 4 axes and one width")
    heads, key_heads = query.shape[2], key_cache.shape[2]
    if heads and (not key_heads or heads % key_heads):
        raise ValueError(f"{key_heads} key heads do not divide {heads} query heads")
    new = (len(query), query.shape[1], *key_cache.shape[2:])
    named = {"key_cache": (key_cache, tuple(key_cache.shape)), "value_cache": (value_cache, tuple(key_cache.shape))}
    for name, (tensor, shape) in (named | {"key": (key, new), "value": (value, new)}).items():
        if tensor is not None and tuple(tensor.shape) != shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected {shape}")
        dtype = torch.int8 if int8 and name.endswith("_cache") else query.dtype
        if tensor is not None and tensor.dtype != dtype:
            raise ValueError(f"{name} is {tensor.dtype}, expected {dtype}")


def _check_lengths(lengths: list[int], new: int, cache: Tensor, table: Tensor | None) -> None:
    size, rows = cache.shape[1], [] if table is None else table.tolist()
    capacity = size * (1 if table is None else table.shape[1])
    for item, length in enumerate(lengths):
        if length < 0 or length + new > capacity:
            raise ValueError(f"item {item} has {length} slots and {new} new ones, expected 0 to {capacity} in all")
        pages = rows[item][: -(-(length + new) // size)] if rows else []
        if outside := [page for page in pages if not 0 <= page < len(cache)]:
            raise ValueError(f"block_table[{item}] has page {outside[0]}, expected 0 to {len(cache) - 1}")
