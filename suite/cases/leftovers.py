"""Mistakes that are made from one call to the next, whatever is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases.contract import Deviation


def reused_output(function: Callable[..., Any]) -> Deviation:
    """A correct function that writes its answers over earlier ones of the same shape."""
    kept: dict[tuple[Any, ...], Tensor] = {}

    def written(found: Tensor) -> Tensor:
        return kept.setdefault((found.shape, found.dtype), torch.empty_like(found)).copy_(found)

    def deviating(*arguments: Any, **named: Any) -> Any:
        found = function(*arguments, **named)
        return (written(found[0]), *found[1:]) if isinstance(found, tuple) else written(found)

    says = "answers of one shape are written over each other: an earlier one changes with the next call"
    return Deviation("reuses_output", says, deviating)


def remembered_tensors(function: Callable[..., Any]) -> Deviation:
    """A correct function that does not look again at the tensors of the call before."""
    before: list[Any] = []

    def deviating(*arguments: Any, **named: Any) -> Any:
        given = [*arguments, *named.values()]
        if not before or not _same(given, before[0]):
            before[:] = [given, function(*arguments, **named)]
        found = before[1]
        return tuple(each.clone() for each in found) if isinstance(found, tuple) else found.clone()

    says = "the tensors of the call before are not read again, whatever has been written into them"
    return Deviation("remembers_tensors", says, deviating)


def _same(given: Sequence[Any], before: Sequence[Any]) -> bool:
    """Whether these are the very tensors of the call before, and equal options."""
    pairs = zip(given, before, strict=False)
    return len(given) == len(before) and all(
        one is other if isinstance(one, Tensor) or isinstance(other, Tensor) else one == other for one, other in pairs
    )
