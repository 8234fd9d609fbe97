"""The plainest mistake in float64, told by its errors alone: it is computed in float32, in whatever order.

Two kernels that compute in float32 round differently, so that none equals another within float64's bounds. What they
share is that their answers, held against float32's own bounds, are right, and in float64 as far off as float32 rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import Call, Case, Conventions, Reply
from attnsuite.cases.expected import WithinBounds
from attnsuite.judging import compare
from attnsuite.judging.precision import PRECISIONS
from attnsuite.model import Status

Array = np.ndarray[Any, Any]

FLOAT32 = PRECISIONS["float32"].unit
AS_LARGE = 2.0**-10
"""Roundoffs of float32 by which numbers have to be off on average: those of many keys cancel. Who is wrong by some
hundreds of float64's own is off by 2⁻²⁰."""
NO_LARGER = 2.0**8
"""Roundoffs of float32 by which they may be off on average; TensorFloat-32 and half types are off by 2¹³ and more."""
FEWEST = 8
"""Numbers that have to be off before their signs tell anything."""
BOTH_SIGNS = 0.1
"""The least share of errors away from 0, and of errors towards it. Rounding makes both; a factor, or a small number
that is added to a sum, makes one kind."""


class InFloat32(Enum):
    """What of an answer in float64 was computed in float32."""

    NOTHING = ""
    """Nothing that these errors would tell."""
    PART = "off as far as float32 rounds, and no further: a part of float64 is computed in float32"
    ALL = "off as far as float32 rounds, in numbers that float32 has: float64 is computed in float32"


def in_float32(
    case: Case, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: Any, conventions: Conventions
) -> InFloat32 | None:
    """What of a wrong answer was computed in float32, as its errors tell; None where there is nothing to tell it by."""
    outputs = [reply.output for reply in replies if reply.output is not None]
    if len(outputs) < len(replies) or any(each.dtype != torch.float64 for each in outputs):
        return None
    if not all(bool(each.isfinite().all()) for each in outputs):
        return InFloat32.NOTHING
    errors = _Errors.of(_dues(truth), replies)
    all_of_it = all(torch.equal(each.float().double(), each) for each in outputs) and any(map(_is_long, outputs))
    if not all_of_it and errors.too_few:
        return None
    if not (errors.no_larger and (all_of_it or errors.of_rounding)):
        return InFloat32.NOTHING
    if not _right_in_float32(case, calls, replies, conventions):
        return InFloat32.NOTHING
    return InFloat32.ALL if all_of_it else InFloat32.PART


def _is_long(output: Tensor) -> bool:
    """Whether it has numbers that are not short by themselves, as 1 and 0.25 are."""
    return not torch.equal(output.bfloat16().double(), output)


def _right_in_float32(
    case: Case, calls: tuple[Call, ...], replies: tuple[Reply, ...], conventions: Conventions
) -> bool:
    """Whether the same answers to the same question in float32 are right there."""
    asked = tuple(_narrow_call(call) for call in calls)
    found = case.verdict(asked, tuple(_narrow_reply(reply) for reply in replies), case.expected(asked, conventions))
    return found.status == Status.PASSED


@dataclass(frozen=True)
class _Errors:
    """How far numbers lie from what is due, above 0 where they lie farther from 0; none where that is not known."""

    away: Array
    values: Array
    """What is due."""

    @classmethod
    def of(cls, dues: Sequence[WithinBounds], replies: Sequence[Reply]) -> _Errors:
        known = len(dues) == len(replies)
        judged = (
            [pair for due, reply in zip(dues, replies, strict=True) for pair in _judged(due, reply)] if known else []
        )
        away = [((actual - value) * np.sign(value)).astype(np.float64) for actual, value in judged]
        return cls(
            np.concatenate([*away, []]), np.concatenate([*(value.astype(np.float64) for _, value in judged), []])
        )

    @property
    def no_larger(self) -> bool:
        """Whether they are no larger than those of float32, as far as they are known."""
        return self._size <= NO_LARGER

    @property
    def of_rounding(self) -> bool:
        """Whether they are as large as float32's, and of both signs, as those of rounding are."""
        outside = float((self.away > 0).sum()) / np.count_nonzero(self.away)
        return bool(self._size >= AS_LARGE and BOTH_SIGNS <= outside <= 1 - BOTH_SIGNS)

    @property
    def too_few(self) -> bool:
        """Whether there are too few of them to have both signs."""
        return bool(np.count_nonzero(self.away) < FEWEST)

    @cached_property
    def _size(self) -> float:
        """In roundoffs of float32, all together."""
        largest = abs(self.values).max(initial=0.0)
        if not largest or not np.isfinite(largest):
            return 0.0
        return float(np.linalg.norm(self.away / largest) / np.linalg.norm(self.values / largest) / FLOAT32)


def _dues(truth: Any) -> list[WithinBounds]:
    """What is due of each call, in whatever a case keeps it; empty where it keeps something else."""
    if isinstance(truth, tuple | list):
        return [due for each in truth for due in _dues(each)]
    return [truth] if isinstance(truth, WithinBounds) else []


def _judged(due: WithinBounds, reply: Reply) -> Iterator[tuple[Array, Array]]:
    """The output and each gradient beside what is due, as rows of numbers."""
    pairs = [(reply.output, due.output, due.rows)]
    pairs += [(reply.gradients.get(name), of, None) for name, of in due.gradients.items()]
    for tensor, of, rows in pairs:
        if tensor is not None:
            numbers = compare.numbers(tensor)
            yield (numbers if rows is None else numbers[..., rows, :]).ravel(), of.value.ravel()


def _narrow_call(call: Call) -> Call:
    upstream = call.output_gradient
    return replace(
        call,
        tensors=_narrow(call.tensors),
        output_gradient=None if upstream is None else _as_float32(upstream),
        weights=_narrow(call.weights),
    )


def _narrow_reply(reply: Reply) -> Reply:
    return replace(
        reply,
        output=_as_float32(reply.output),
        weights=_as_float32(reply.weights),
        gradients=_narrow(reply.gradients),
        attention_weights=_narrow(reply.attention_weights),
    )


def _narrow(tensors: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _as_float32(tensor) for name, tensor in tensors.items()}


def _as_float32(tensor: Any) -> Any:
    """The tensor in float32, where it is in float64; anything else as it is."""
    return tensor.float() if isinstance(tensor, Tensor) and tensor.dtype == torch.float64 else tensor
