"""Checks of the implementations of `attention`."""

import torch
from torch import Tensor


def check_window(window: tuple[int | None, int | None] | None) -> None:
    """Raise ValueError for a window that is not a pair of widths."""
    if window is not None and len(window) != 2:
        raise ValueError(f"window must be a pair (left, right), not {window}")
    if window is not None and any(width is not None and width < 0 for width in window):
        raise ValueError(f"the widths of a window must be None or at least 0, not {window}")


def check_softcap(softcap: float | None) -> None:
    """Raise ValueError for a soft cap that is not a finite number above 0."""
    if softcap is not None and not 0 < softcap < float("inf"):
        raise ValueError(f"softcap must be None or a finite number above 0, not {softcap}")


def _check_sinks(sinks: Tensor | None, query: Tensor) -> None:
    """Raise ValueError for sinks that are not one number of the query's dtype for each query head."""
    heads = query.shape[-3] if query.dim() > 2 else 1
    if sinks is not None and (sinks.shape != (heads,) or sinks.dtype != query.dtype):
        raise ValueError(f"sinks must be {heads} of {query.dtype}, not {tuple(sinks.shape)} of {sinks.dtype}")


def check_inputs(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float, gqa: bool,
    window: tuple[int | None, int | None] | None = None, softcap: float | None = None, sinks: Tensor | None = None,
) -> None:  # fmt: skip
    """Raise ValueError for inputs that the formula of the contract does not define."""
    check_window(window)
    check_softcap(softcap)
    _check_sinks(sinks, query)
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if not 2 <= query.dim() <= 4 or not query.dim() == key.dim() == value.dim():
        raise ValueError(f"query, key and value must have one rank, 2 to 4: {shapes}")
    if not query.dtype.is_floating_point or not query.dtype == key.dtype == value.dtype:
        raise ValueError(f"query, key and value must have one float dtype: {query.dtype}, {key.dtype}, {value.dtype}")
    if not query.device == key.device == value.device:
        raise ValueError(f"query, key and value must be on one device: {query.device}, {key.device}, {value.device}")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(f"query and key must have the same width: {shapes}")
    if key.shape[:-1] != value.shape[:-1]:
        raise ValueError(f"key and value must have the same leading axes, heads and length: {shapes}")
    if query.shape[:-3] != key.shape[:-3]:
        raise ValueError(f"query and key must have the same leading axes: {shapes}")
    if query.shape[:-2] != key.shape[:-2]:
        if not gqa:
            raise ValueError(f"query and key must have the same heads unless enable_gqa: {shapes}")
        if key.shape[-3] == 0 or query.shape[-3] % key.shape[-3]:
            raise ValueError(f"the key's heads must divide the query's heads: {shapes}")
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"dropout_p must lie in [0, 1], not be {dropout_p}")
    if mask is None:
        return
    if mask.dtype not in (torch.bool, query.dtype):
        raise ValueError(f"attn_mask must be bool or of the query's dtype {query.dtype}, not {mask.dtype}")
    if mask.device != query.device:
        raise ValueError(f"attn_mask must be on the query's device {query.device}, not {mask.device}")
    target = (*query.shape[:-1], key.shape[-2])
    if mask.dim() > len(target) or any(
        size not in (1, expected) for size, expected in zip(reversed(mask.shape), reversed(target), strict=False)
    ):
        raise ValueError(f"attn_mask {tuple(mask.shape)} cannot broadcast to the scores {target}")
