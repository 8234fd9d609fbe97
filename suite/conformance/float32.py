"""The plainest mistake in float64, recognised by its errors alone: a result that was computed in float32.

Two kernels that compute in float32 round differently, so no mutant matches them within the error bounds of float64.
What they share: their results have float32's digits alone, and are right within the bounds of float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases import Call, Case, Conventions, Reply
from attnsuite.model import Status

IN_FLOAT32 = "off as far as float32 rounds, in numbers that float32 has: float64 is computed in float32"
"""What is said of such a result."""


def in_float32(case: Case, calls: tuple[Call, ...], replies: tuple[Reply, ...], conventions: Conventions) -> bool:
    """Whether a wrong result in float64 was computed in float32."""
    outputs = [reply.output for reply in replies if reply.output is not None]
    if len(outputs) < len(replies) or any(output.dtype != torch.float64 for output in outputs):
        return False
    if not all(torch.equal(output.float().double(), output) for output in outputs):
        return False
    if all(torch.equal(output.bfloat16().double(), output) for output in outputs):  # 1, 0.25, NaN
        return False
    narrow = tuple(_narrow_call(call) for call in calls)
    expected = case.expected(narrow, conventions)
    verdict = case.verdict(narrow, tuple(_narrow_reply(reply) for reply in replies), expected)
    return verdict.status == Status.PASSED and case.counts(expected)


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
