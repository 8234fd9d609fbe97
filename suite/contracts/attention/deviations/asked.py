"""What one call of an attention asks for, and when it may not be asked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Asked:
    """The arguments of one call."""

    query: Tensor  # ... h l e
    key: Tensor  # ... g s e
    value: Tensor  # ... g s v
    mask: Tensor | None = None  # broadcastable to ... h l s
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False

    @property
    def rank(self) -> int:
        return self.query.dim()

    @property
    def queries(self) -> int:
        return self.query.shape[-2]

    @property
    def keys(self) -> int:
        return self.key.shape[-2]

    @property
    def width(self) -> int:
        return self.query.shape[-1]

    @property
    def value_width(self) -> int:
        return self.value.shape[-1]

    @property
    def heads(self) -> int:
        return self.query.shape[-3] if self.rank > 2 else 1

    @property
    def key_heads(self) -> int:
        return self.key.shape[-3] if self.rank > 2 else 1

    @property
    def grouped(self) -> bool:
        return self.heads != self.key_heads

    @property
    def factor(self) -> float:
        """What the scores are multiplied by."""
        return 1 / math.sqrt(self.width) if self.scale is None else self.scale

    @property
    def scores_shape(self) -> tuple[int, ...]:
        return (*self.query.shape[:-1], self.keys)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (*self.query.shape[:-1], self.value_width)

    @property
    def accumulator(self) -> torch.dtype:
        """Half types are computed in float32, the others in their own."""
        return torch.float32 if self.query.dtype in (torch.float16, torch.bfloat16) else self.query.dtype

    @property
    def wants_gradient(self) -> bool:
        tensors = (self.query, self.key, self.value, self.mask)
        return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def check(asked: Asked) -> None:
    """Raise ValueError for what the contract does not define."""
    query, key, value, mask = asked.query, asked.key, asked.value, asked.mask
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if not 2 <= query.dim() <= 4 or not query.dim() == key.dim() == value.dim():
        raise ValueError(f"the ranks must be equal, from 2 to 4: {shapes}")
    if not query.dtype.is_floating_point or not query.dtype == key.dtype == value.dtype:
        raise ValueError(f"the dtypes must be one floating type: {query.dtype}, {key.dtype}, {value.dtype}")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(f"query and key must be equally wide: {shapes}")
    if key.shape[:-1] != value.shape[:-1]:
        raise ValueError(f"key and value must have the same length, heads and leading axes: {shapes}")
    if query.shape[:-3] != key.shape[:-3]:
        raise ValueError(f"query and key must have the same leading axes: {shapes}")
    if asked.grouped and not (asked.enable_gqa and asked.key_heads and asked.heads % asked.key_heads == 0):
        raise ValueError(f"the key's heads must divide the query's, with enable_gqa: {shapes}")
    if not 0 <= asked.dropout_p <= 1:
        raise ValueError(f"dropout_p must lie in [0, 1], not be {asked.dropout_p}")
    if mask is not None:
        _check_mask(mask, asked)


def _check_mask(mask: Tensor, asked: Asked) -> None:
    due = asked.scores_shape
    if mask.dtype not in (torch.bool, asked.query.dtype):
        raise ValueError(f"attn_mask must be bool or {asked.query.dtype}, not {mask.dtype}")
    fits = all(size in (1, wanted) for size, wanted in zip(reversed(mask.shape), reversed(due), strict=False))
    if mask.dim() > len(due) or not fits:
        raise ValueError(f"attn_mask {tuple(mask.shape)} cannot broadcast to the scores {due}")


def as_attention(answer: Callable[[Asked], Any]) -> Callable[..., Any]:
    """The answer as a function with the contract's signature."""

    def attention(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        return answer(Asked(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa))

    return attention
