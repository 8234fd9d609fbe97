"""Mistakes that are made from one call to the next, whatever is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from suite.asking.contract import Deviation


def reused_output(function: Callable[..., Tensor]) -> Deviation:
    """A correct function that writes its answers over earlier ones of the same shape."""
    kept: dict[tuple[Any, ...], Tensor] = {}

    def deviating(*arguments: Any, **named: Any) -> Tensor:
        found = function(*arguments, **named)
        place = kept.setdefault((found.shape, found.dtype), torch.empty_like(found))
        return place.copy_(found)

    says = "answers of one shape are written over each other: an earlier one changes with the next call"
    return Deviation("reuses_output", says, deviating)


def remembered_tensors(function: Callable[..., Tensor]) -> Deviation:
    """A correct function that does not look again at tensors that lie where those of the call before lay."""
    before: list[Any] = [None, None]

    def deviating(*arguments: Any, **named: Any) -> Tensor:
        places = tuple(_place(each) for each in (*arguments, *named.values()))
        if before[0] != places:
            before[:] = [places, function(*arguments, **named)]
        found: Tensor = before[1].clone()
        return found

    says = "tensors that lie where those of the call before lay are not read again"
    return Deviation("remembers_tensors", says, deviating)


def _place(argument: Any) -> Any:
    """Where a tensor lies and how it is laid out; any other argument as it is."""
    if not isinstance(argument, Tensor):
        return argument
    return argument.data_ptr(), argument.shape, argument.stride(), argument.dtype
