"""Verdicts on replies, and the comparison of several tensors with their expected values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnsuite.judging import compare
from attnsuite.judging.compare import Array
from attnsuite.model import Status

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from attnsuite.judging.aggregate import AggregateLimits
    from attnsuite.judging.precision import Bounded


@dataclass(frozen=True)
class Verdict:
    """The verdict on the replies of one test."""

    status: Status
    detail: str = ""
    error_ratio: float | None = None
    """The largest error divided by its tolerance: at most 1 in a test that passes."""
    output_wrong: bool = False
    """Whether the complaint is about numbers, which a mutant may reproduce."""
    marginal: bool = False
    """Whether so few numbers are wrong by so little that no known mistake explains them."""
    accepted: bool = False
    """Whether bad input was accepted, and nothing worse."""
    accept: float = 1.0
    """The tolerance in error bounds, where the largest error is."""

    @property
    def bounds(self) -> float | None:
        """The largest error in error bounds."""
        return None if self.error_ratio is None else self.error_ratio * self.accept


def closest(pairs: list[tuple[str, Array, Bounded, float]]) -> Verdict:
    """The verdict on named pairs of actual and expected: the first complaint and the largest error ratio."""
    complaint, largest, clear = None, (0.0, 1.0), False
    for name, actual, expected, accept in pairs:
        value, bound = expected.value.reshape(actual.shape), expected.bound.reshape(actual.shape)
        errors = compare.errors(actual, value, bound)
        says = compare.complaint(errors, actual, value, bound, name, accept)
        complaint, clear = complaint or says, clear or bool(says and not compare.marginal(errors, accept))
        largest = max(largest, (float(errors.max(initial=0.0)) / accept, accept))
    if complaint:
        return Verdict(Status.FAILED, complaint, largest[0], output_wrong=True, marginal=not clear, accept=largest[1])
    return Verdict(Status.PASSED, "", largest[0])


def together(pairs: list[tuple[str, Array, Bounded, float]], limits: Mapping[str, AggregateLimits]) -> Verdict | None:
    """The verdict on the first pair whose errors together exceed their limits, or None."""
    for name, actual, expected, accept in pairs:
        of_tensor = limits.get(name.removeprefix("gradient of "))
        if of_tensor is not None:
            complaint, ratio = compare.together(actual, expected.value.reshape(actual.shape), of_tensor, name=name)
            if complaint:
                return Verdict(Status.FAILED, complaint, ratio, output_wrong=True, accept=accept)
    return None


def unlike(name: str, tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> str | None:
    """What is wrong with a tensor before any of its elements is read, or None."""
    if tensor.dtype != dtype:
        return f"{name} is {str(tensor.dtype)[6:]}, should be {str(dtype)[6:]}"
    if tuple(tensor.shape) != shape:
        return f"{name} has shape {tuple(tensor.shape)}, should have {shape}"
    return None
