"""Checks of the inputs of `kv_cache_attention`. Each raises ValueError in one line, before any work."""

import torch
from torch import Tensor

from attnsuite.implementations._checks import check_axes

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
    new = {"key": (key, "b l g e"), "value": (value, "b l g e")}
    caches = {"key_cache": (key_cache, "p z g e"), "value_cache": (value_cache, "p z g e")}
    sizes = check_axes(query=(query, "b l h e"), **caches, **new)
    if (key is None) != (value is None):
        raise ValueError(f"key and value belong together, but 1 of 2 is None: {'value' if value is None else 'key'}")
    if sizes["h"] and (not sizes["g"] or sizes["h"] % sizes["g"]):
        raise ValueError(f"{sizes['g']} key heads do not divide {sizes['h']} query heads")
    for name, (tensor, _) in (caches | new).items():
        dtype = torch.int8 if name in caches and scales[0] is not None else query.dtype
        if tensor is not None and tensor.dtype != dtype:
            raise ValueError(f"{name} is {tensor.dtype}, expected {dtype}")
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


def _check_lengths(lengths: list[int], new: int, cache: Tensor, table: Tensor | None) -> None:
    size, rows = cache.shape[1], [] if table is None else table.tolist()
    capacity = size * (1 if table is None else table.shape[1])
    for item, length in enumerate(lengths):
        if length < 0 or length + new > capacity:
            raise ValueError(f"item {item} has {length} slots and {new} new ones, expected 0 to {capacity} in all")
        pages = rows[item][: -(-(length + new) // size)] if rows else []
        if outside := [page for page in pages if not 0 <= page < len(cache)]:
            raise ValueError(f"block_table[{item}] has page {outside[0]}, expected 0 to {len(cache) - 1}")
