"""What the variants share: checked inputs, and the contract's signature around a way of computing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from attnsuite.cases import Variant
from attnsuite.contracts.attention.computation.call import AttentionCall, as_attention, check
from attnsuite.contracts.attention.feature import features
from attnsuite.contracts.attention.features.scale import factor


class Inputs(NamedTuple):
    """One call, spelled out: equal heads, the scale as a number, all masks as one bias."""

    query: Tensor  # ... h l e
    key: Tensor  # ... h s e
    value: Tensor  # ... h s v
    factor: float
    bias: Tensor  # ... h l s, no row of it all −inf
    keep: Tensor  # ... h l s, dropout's multiplier

    @property
    def scores(self) -> Tensor:
        """The scores that the softmax is taken of."""
        return self.factor * (self.query @ self.key.mT) + self.bias

    @property
    def powers(self) -> Tensor:
        """Their powers, the largest of each row 1."""
        return torch.exp(self.scores - self.scores.detach().amax(-1, keepdim=True))


Core = Callable[[Inputs], Tensor]


def attention(core: Core, wide: Callable[[torch.dtype], torch.dtype] | None = None) -> Callable[..., Tensor]:
    """The contract's signature around a core, which sees neither empty rows nor a call without keys."""

    def answer(call: AttentionCall) -> Tensor:
        check(call)
        query, key, value = spread(call, wide(call.query.dtype) if wide else call.accumulator)
        if 0 in call.scores_shape:
            return (query @ key.transpose(-1, -2) @ value).to(call.query.dtype)
        bias, empty = bias_of(call, query.dtype)
        output = core(Inputs(query, key, value, factor(call), bias, kept(call, query.dtype)))
        return output.masked_fill(empty, 0.0).to(call.query.dtype)

    return as_attention(answer)


def in_style(cores: Mapping[str, tuple[str, Core]]) -> list[Variant]:
    """The variants of a table: by name, the style in words and what computes in it."""
    return [Variant(name, says, attention(core)) for name, (says, core) in cores.items()]


def spread(call: AttentionCall, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value in a dtype; each key head stands before all of its query heads."""
    query, key, value = (tensor.to(dtype) for tensor in (call.query, call.key, call.value))
    if call.grouped:
        which = torch.arange(call.heads, device=query.device) * call.key_heads // call.heads
        key, value = key.index_select(-3, which), value.index_select(-3, which)
    return query, key, value


def bias_of(call: AttentionCall, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The masks as numbers to add, and which rows they leave empty; those have a bias of 0."""
    bias = torch.zeros(call.scores_shape, dtype=dtype, device=call.query.device)
    for each in features():
        value = each.value(call.options)
        if each.added and value is not None and (added := each.added(call.grid(), value)) is not None:
            bias = bias + added.to(dtype)
    if (seen := call.visible()) is not None:
        bias = bias.masked_fill(seen.logical_not(), -math.inf)
    empty = (bias == -math.inf).all(dim=-1, keepdim=True)
    return bias.masked_fill(empty, 0.0), empty


def kept(call: AttentionCall, dtype: torch.dtype) -> Tensor:
    """Dropout's multiplier for each weight."""
    ones = torch.ones(call.scores_shape, dtype=dtype, device=call.query.device)
    return torch.nn.functional.dropout(ones, call["dropout_p"]) if call["dropout_p"] > 0 else ones
