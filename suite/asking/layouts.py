"""Questions whose tensors lie in memory otherwise: not row by row, or all in one place; and what mistake that shows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from suite.asking import Call, Case, Conventions, Deviation, Reply
from suite.judging.verdicts import Verdict

INPUTS = ("query", "key", "value")
JUNK = 977
"""What stands between the numbers: finite, and large enough to show when it is read."""


class Laid(Case):
    """Another question, whose calls are laid out by `lay`."""

    def __init__(self, of: Case) -> None:
        self.of = of
        self.name, self.why, self.dtypes = of.name, of.why, of.dtypes

    def calls(self, dtype: str) -> tuple[Call, ...]:
        return tuple(map(self.lay, self.of.calls(dtype)))

    @abstractmethod
    def lay(self, call: Call) -> Call:
        """The call, laid out otherwise."""

    def truth(self, calls: tuple[Call, ...], conventions: Conventions) -> Any:
        return self.of.truth(calls, conventions)

    def verdict(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: Any) -> Verdict:
        return self.of.verdict(calls, replies, truth)

    def counts(self, truth: Any) -> bool:
        return self.of.counts(truth)

    def alike(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], theirs: tuple[Reply, ...], truth: Any) -> bool:
        return self.of.alike(calls, replies, theirs, truth)


def as_one_tensor(call: Call) -> Call:
    """The call of self-attention: the query is given as key and value as well."""
    query = call.tensors["query"]
    return replace(call, tensors={**call.tensors, "key": query, "value": query}, same_tensor=INPUTS)


class Scattered(Laid):
    """Another question, whose tensors have gaps in memory and run from the last axis to the first."""

    def lay(self, call: Call) -> Call:
        return replace(
            call,
            tensors={name: scattered(tensor) for name, tensor in call.tensors.items()},
            weights={name: scattered(tensor) for name, tensor in call.weights.items()},
        )


class One(Laid):
    """Another question, of which one tensor is given as query, key and value."""

    def lay(self, call: Call) -> Call:
        return as_one_tensor(call)


def scattered(tensor: Tensor) -> Tensor:
    """The same numbers, of which no two axes can be viewed as one."""
    gaps = torch.full((*reversed(tensor.shape), 2), JUNK).to(tensor.dtype)
    view = gaps[..., 0].permute(tuple(reversed(range(tensor.dim()))))
    return view.copy_(tensor)


def in_memory_order(function: Callable[..., Any]) -> Deviation:
    """A correct function that is handed numbers in the order in which they lie in memory."""

    def deviating(*arguments: Any, **named: Any) -> Any:
        return function(*map(_read, arguments), **{name: _read(argument) for name, argument in named.items()})

    return Deviation("reads_in_memory_order", "numbers are read in memory's order, whatever the strides", deviating)


def _read(argument: Any) -> Any:
    if not isinstance(argument, Tensor):
        return argument
    rows = torch.empty(argument.shape, device="meta").stride()
    return argument.as_strided(argument.shape, rows)
