"""What the strangers share: checked inputs, and the frame around a way of computing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from attnsuite.contracts.attention.computation.call import Asked, as_attention, check
from attnsuite.contracts.attention.feature import features
from attnsuite.contracts.attention.features.scale import factor


class Question(NamedTuple):
    """One call, spelled out: equal heads, the scale as a number, all masks as one bias."""

    query: Tensor  # ... h l e
    key: Tensor  # ... h s e
    value: Tensor  # ... h s v
    factor: float
    bias: Tensor  # ... h l s, no row of it all −inf
    keep: Tensor  # ... h l s, dropout's multiplier


Core = Callable[[Question], Tensor]


def attention(core: Core, wide: Callable[[torch.dtype], torch.dtype] | None = None) -> Callable[..., Tensor]:
    """The contract's signature around a core, which sees neither empty rows nor a call without keys."""

    def answer(asked: Asked) -> Tensor:
        check(asked)
        query, key, value = spread(asked, (wide or accumulator)(asked.query.dtype))
        if 0 in asked.scores_shape:
            return (query @ key.transpose(-1, -2) @ value).to(asked.query.dtype)
        bias, empty = bias_of(asked, query.dtype)
        keep = kept(asked, query.dtype)
        output = core(Question(query, key, value, factor(asked), bias, keep))
        return output.masked_fill(empty, 0.0).to(asked.query.dtype)

    return as_attention(answer)


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """Float32 for half types, else the dtype itself."""
    return torch.float32 if dtype.itemsize < 4 else dtype


def spread(asked: Asked, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value in a dtype; each key head stands before all of its query heads."""
    query, key, value = (tensor.to(dtype) for tensor in (asked.query, asked.key, asked.value))
    if asked.grouped:
        which = torch.arange(asked.heads, device=query.device) * asked.key_heads // asked.heads
        key, value = key.index_select(-3, which), value.index_select(-3, which)
    return query, key, value


def bias_of(asked: Asked, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The masks as numbers to add, and which rows they leave empty; those have a bias of 0."""
    bias = torch.zeros(asked.scores_shape, dtype=dtype, device=asked.query.device)
    grid = asked.grid()
    for each in features():
        value = each.value(asked.options)
        if each.added and value is not None and (added := each.added(grid, value)) is not None:
            bias = bias + added.to(dtype)
    if (seen := asked.visible()) is not None:
        bias = bias.masked_fill(seen.logical_not(), -math.inf)
    empty = (bias == -math.inf).all(dim=-1, keepdim=True)
    return bias.masked_fill(empty, 0.0), empty


def kept(asked: Asked, dtype: torch.dtype) -> Tensor:
    """Dropout's multiplier for each weight."""
    p = asked["dropout_p"]
    ones = torch.ones(asked.scores_shape, dtype=dtype, device=asked.query.device)
    return torch.nn.functional.dropout(ones, p) if p > 0 else ones
