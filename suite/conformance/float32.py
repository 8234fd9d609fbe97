"""The plainest mistake in float64, recognised by its errors alone: a result that was computed in float32.

Two kernels that compute in float32 round differently, so no mutant matches them within the error bounds of float64.
What they share: their results are right within the bounds of float32, and as far off in float64 as float32 rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
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
MAX_ERROR = 2.0**8
"""The largest average error, in roundoffs of float32; TensorFloat-32 and half types are off by 2¹³ and more."""
IN_FLOAT32 = "off as far as float32 rounds, in numbers that float32 has: float64 is computed in float32"
"""What is said of such a result."""


def in_float32(
    case: Case, calls: tuple[Call, ...], replies: tuple[Reply, ...], expected: Any, conventions: Conventions
) -> bool:
    """Whether a wrong result was computed in float32, by its errors."""
    outputs = [reply.output for reply in replies if reply.output is not None]
    if len(outputs) < len(replies) or any(output.dtype != torch.float64 for output in outputs):
        return False
    if not all(torch.equal(output.float().double(), output) for output in outputs):
        return False
    if all(torch.equal(output.bfloat16().double(), output) for output in outputs):  # 1, 0.25, NaN
        return False
    small = _error(_within(expected), replies) <= MAX_ERROR
    return small and _passes_in_float32(case, calls, replies, conventions)


def _passes_in_float32(
    case: Case, calls: tuple[Call, ...], replies: tuple[Reply, ...], conventions: Conventions
) -> bool:
    """Whether the same replies to the same calls pass in float32."""
    narrow = tuple(_narrow_call(call) for call in calls)
    verdict = case.verdict(narrow, tuple(_narrow_reply(reply) for reply in replies), case.expected(narrow, conventions))
    return verdict.status == Status.PASSED


def _error(expected: Sequence[WithinBounds], replies: Sequence[Reply]) -> float:
    """The size of all errors together, in roundoffs of float32; 0 where nothing is expected."""
    known = zip(expected, replies, strict=True) if len(expected) == len(replies) else ()
    pairs = [pair for each, reply in known for pair in _pairs(each, reply)]
    errors = np.concatenate([*((actual - value).astype(np.float64) for actual, value in pairs), []])
    values = np.concatenate([*(value.astype(np.float64) for _, value in pairs), []])
    largest = abs(values).max(initial=0.0)
    if not largest or not np.isfinite(largest):
        return 0.0
    return float(np.linalg.norm(errors / largest) / np.linalg.norm(values / largest) / FLOAT32)


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
