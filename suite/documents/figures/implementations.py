"""The implementations that compute what figures show, and the weights of an attention, read by values of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from attnsuite import registry
from attnsuite.model import UsageError
from attnsuite.registry import Loaded

Function = Callable[..., Any]


def implementation(name: str, contract: str | None = None) -> Loaded:
    """The implementation that a target of the command line names. UsageError unless it is one that can be called."""
    found = registry.find([name], contract)
    if len(found) > 1:
        raise UsageError(f"{name!r} means {len(found)} implementations: {', '.join(each.full_name for each in found)}")
    loaded = registry.load(found[0])
    if not isinstance(loaded, Loaded):
        raise UsageError(f"nothing can be drawn with {found[0].full_name}: {loaded.reason}")
    return loaded


@cache
def function(name: str) -> Function:
    """The function of an implementation that ships, by its full name."""
    return implementation(name).function


def weights_of(attention: Function, query: Tensor, key: Tensor, **options: Any) -> Tensor:
    """The weights of an attention, … l s, for queries … l e and keys … s e.

    Where values are the identity, the output is the weights. They are given e columns at a time, so that an attention
    whose values have to be as wide as its queries can be asked as well. Raises ValueError for an answer that is no
    tensor of the shape that is due.
    """
    width, keys = query.shape[-1], key.shape[-2]
    identity = torch.eye(keys, -(-keys // width) * width, dtype=query.dtype)
    columns = []
    for start in range(0, keys, width):
        value = identity[:, start : start + width].expand(*key.shape[:-1], width).contiguous()
        columns.append(_checked(attention(query, key, value, **options), query.shape))
    return torch.cat(columns, -1)[..., :keys]


def _checked(answer: object, shape: torch.Size) -> Tensor:
    if not isinstance(answer, Tensor):
        raise ValueError(f"it answered with {type(answer).__name__}, due is a tensor")
    if answer.shape != shape:
        raise ValueError(f"it answered with shape {tuple(answer.shape)}, due is {tuple(shape)}")
    return answer
