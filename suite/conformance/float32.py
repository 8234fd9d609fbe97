"""The plainest mistake in float64, recognised by its errors alone: a result that was computed in float32.

Two kernels that compute in float32 round differently, so no mutant matches them within the error bounds of float64.
What they share: their results are right within the bounds of float32, and as far off in float64 as float32 rounds.
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
MIN_ERROR = 2.0**-10
"""The least average error, in roundoffs of float32: those of many keys cancel. Some hundred roundoffs of float64 are
2⁻²⁰."""
MAX_ERROR = 2.0**8
"""The largest average error, in roundoffs of float32; TensorFloat-32 and half types are off by 2¹³ and more."""
MIN_NUMBERS = 8
"""Numbers that have to be off before their signs tell anything."""
MIN_SHARE_OF_SIGN = 0.1
"""The least share of errors away from 0, and of errors towards it. Rounding makes both, a wrong factor one kind."""


class InFloat32(Enum):
    """The part of a result in float64 that was computed in float32."""

    NOTHING = ""
    PART = "off as far as float32 rounds, and no further: a part of float64 is computed in float32"
    ALL = "off as far as float32 rounds, in numbers that float32 has: float64 is computed in float32"


def in_float32(
    case: Case, calls: tuple[Call, ...], replies: tuple[Reply, ...], expected: Any, conventions: Conventions
) -> InFloat32 | None:
    """The part of a wrong result that was computed in float32, by its errors; None where they cannot tell."""
    outputs = [reply.output for reply in replies if reply.output is not None]
    if len(outputs) < len(replies) or any(output.dtype != torch.float64 for output in outputs):
        return None
    if not all(bool(output.isfinite().all()) for output in outputs):
        return InFloat32.NOTHING
    errors = _Errors.of(_within(expected), replies)
    all_short = all(torch.equal(output.float().double(), output) for output in outputs)
    entire = all_short and any(not torch.equal(output.bfloat16().double(), output) for output in outputs)  # not 1, 0.25
    if not entire and np.count_nonzero(errors.away) < MIN_NUMBERS:
        return None
    if errors.size > MAX_ERROR or not (entire or errors.are_of_rounding):
        return InFloat32.NOTHING
    if not _passes_in_float32(case, calls, replies, conventions):
        return InFloat32.NOTHING
    return InFloat32.ALL if entire else InFloat32.PART


def _passes_in_float32(
    case: Case, calls: tuple[Call, ...], replies: tuple[Reply, ...], conventions: Conventions
) -> bool:
    """Whether the same replies to the same calls pass in float32."""
    narrow = tuple(_narrow_call(call) for call in calls)
    verdict = case.verdict(narrow, tuple(_narrow_reply(reply) for reply in replies), case.expected(narrow, conventions))
    return verdict.status == Status.PASSED


@dataclass(frozen=True)
class _Errors:
    """Errors of numbers, above 0 where a number lies farther from 0 than expected; none where nothing is expected."""

    away: Array
    expected: Array

    @classmethod
    def of(cls, expected: Sequence[WithinBounds], replies: Sequence[Reply]) -> _Errors:
        known = len(expected) == len(replies)
        pairs = [pair for each, reply in zip(expected, replies, strict=False) for pair in _pairs(each, reply) if known]
        away = [((actual - value) * np.sign(value)).astype(np.float64) for actual, value in pairs]
        values = [value.astype(np.float64) for _, value in pairs]
        return cls(np.concatenate([*away, []]), np.concatenate([*values, []]))

    @property
    def are_of_rounding(self) -> bool:
        """Whether they are as large as those of float32, and of both signs."""
        outside = float((self.away > 0).sum()) / np.count_nonzero(self.away)
        return bool(self.size >= MIN_ERROR and MIN_SHARE_OF_SIGN <= outside <= 1 - MIN_SHARE_OF_SIGN)

    @cached_property
    def size(self) -> float:
        """The size of all errors together, in roundoffs of float32."""
        largest = abs(self.expected).max(initial=0.0)
        if not largest or not np.isfinite(largest):
            return 0.0
        return float(np.linalg.norm(self.away / largest) / np.linalg.norm(self.expected / largest) / FLOAT32)


def _within(expected: Any) -> list[WithinBounds]:
    """The expected values of each call, in any nesting; empty where a case expects something else."""
    if isinstance(expected, tuple | list):
        return [within for each in expected for within in _within(each)]
    return [expected] if isinstance(expected, WithinBounds) else []


def _pairs(expected: WithinBounds, reply: Reply) -> Iterator[tuple[Array, Array]]:
    """The actual and the expected numbers of the output and each gradient, flat."""
    pairs = [(reply.output, expected.output, expected.rows)]
    pairs += [(reply.gradients.get(name), gradient, None) for name, gradient in expected.gradients.items()]
    for tensor, value, rows in pairs:
        if tensor is not None:
            numbers = compare.numbers(tensor)
            yield (numbers if rows is None else numbers[..., rows, :]).ravel(), value.value.ravel()


def _narrow_call(call: Call) -> Call:
    return replace(
        call,
        tensors=_narrow(call.tensors),
        output_gradient=_as_float32(call.output_gradient),
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
    """A tensor of float64 in float32; anything else as it is."""
    return tensor.float() if isinstance(tensor, Tensor) and tensor.dtype == torch.float64 else tensor
