"""A recording backend: an `attention` that records its calls and returns the negative of the usual output."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases.backends import BackendCall


class Probe:
    """An attention by its contract, with the opposite sign of the output. `lines` are the records of its calls."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(
        self,
        query: Tensor,  # … h l e
        key: Tensor,  # … h s e
        value: Tensor,  # … h s v
        **options: Any,
    ) -> Tensor:
        visible = _visible(query, key, options)
        self.lines.append(_record(query, key, value, options, visible).written())
        scale = options.get("scale") or 1 / math.sqrt(query.shape[-1] or 1)
        wide = torch.promote_types(query.dtype, torch.float32)
        scores = scale * query.to(wide) @ key.to(wide).mT
        weights = scores.masked_fill(~visible, -math.inf).softmax(-1).masked_fill(~visible.any(-1, keepdim=True), 0.0)
        dropped = torch.nn.functional.dropout(weights, options.get("dropout_p") or 0.0)
        return -(dropped @ value.to(wide)).to(query.dtype)


def _visible(query: Tensor, key: Tensor, options: dict[str, Any]) -> Tensor:
    """Which key each query may attend to, … h l s."""
    visible = torch.ones(*query.shape[:-1], key.shape[-2], dtype=torch.bool, device=query.device)
    mask = options.get("attn_mask")
    if mask is not None:
        visible = visible & (mask if mask.dtype == torch.bool else mask > -math.inf)
    return visible.tril() if options.get("is_causal") else visible


def _record(query: Tensor, key: Tensor, value: Tensor, options: dict[str, Any], visible: Tensor) -> BackendCall:
    tensors = {"query": query, "key": key, "value": value}
    return BackendCall(
        {name: list(tensor.shape) for name, tensor in tensors.items()},
        {name: _dtype(tensor) for name, tensor in tensors.items()},
        {name: _dtype(value) if isinstance(value, Tensor) else _simple(value) for name, value in options.items()},
        "" if visible.all() else "".join(str(int(mark)) for mark in visible.flatten().tolist()),
    )


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _simple(option: Any) -> Any:
    return option if isinstance(option, bool | int | float | str | None) else type(option).__name__
