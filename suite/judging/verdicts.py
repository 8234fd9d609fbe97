"""What a judgement is, and how numbers are judged by how many bounds they lie from the truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from attnsuite.judging import compare
from attnsuite.model import Status

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from attnsuite.judging.precision import Bounded
    from attnsuite.judging.whole import Whole

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Verdict:
    """The judgement on the replies to one question."""

    status: Status
    detail: str = ""
    error_ratio: float | None = None
    output_wrong: bool = False
    """Whether the complaint is about numbers, which a deviation may reproduce."""
    marginal: bool = False
    """Whether the numbers are wrong by so little, and so few of them, that no known mistake explains them."""
    accepted: bool = False
    """Whether the complaint is that bad input was accepted, and nothing worse."""


def closest(pairs: list[tuple[str, Array, Bounded, float]]) -> Verdict:
    """Judge named pairs of actual and expected; report the first complaint and the largest error ratio."""
    complaint, largest, clear = None, 0.0, False
    for name, actual, expected, accept in pairs:
        value, bound = expected.value.reshape(actual.shape), expected.bound.reshape(actual.shape)
        errors = compare.errors(actual, value, bound)
        told = compare.told(errors, actual, value, bound, name, accept)
        complaint, clear = complaint or told, clear or bool(told and not compare.marginal(errors, accept))
        largest = max(largest, float(errors.max(initial=0.0)))
    if complaint:
        return Verdict(Status.WRONG, complaint, largest, output_wrong=True, marginal=not clear)
    return Verdict(Status.PASSED, "", largest)


def together(pairs: list[tuple[str, Array, Bounded, float]], wholes: Mapping[str, Whole]) -> Verdict | None:
    """The complaint about the first of the pairs whose errors, taken together, go beyond their limits, or None."""
    for name, actual, expected, accept in pairs:
        whole = wholes.get(name.removeprefix("gradient of "))
        if whole is not None:
            complaint, ratio = compare.together(actual, expected.value.reshape(actual.shape), whole, name=name)
            if complaint:
                return Verdict(Status.WRONG, complaint, accept * ratio, output_wrong=True)
    return None


def unlike(name: str, tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> str | None:
    """What is wrong with a tensor before any of its numbers is read, or None."""
    if tensor.dtype != dtype:
        return f"{name} is {str(tensor.dtype)[6:]}, should be {str(dtype)[6:]}"
    if tuple(tensor.shape) != shape:
        return f"{name} has shape {tuple(tensor.shape)}, should have {shape}"
    return None
