"""Weights that a function returns unrequested, `(output, weights)`: recognised, and compared with the expected ones.

The second may be a dictionary that holds the weights under one plain name.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np
from torch import Tensor

from attnsuite.judging import compare
from attnsuite.judging.precision import Bounded
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import Status

Array = np.ndarray[Any, Any]
Weights = Callable[[], Bounded]
"""Computes the expected weights of the judged keys: the output over `identity_values_of` them."""

WEIGHTS_NAMES = ("weights", "attention_weights", "attn_weights", "attention", "attn")
"""The names of weights in a dictionary, which must have exactly one of them."""
MOST_SHOWN = 3
"""The number of names of a dictionary in a message."""
JUDGED_KEYS = 256
"""Of more keys, this many are judged, and the sum of all: a weight for each of 70,000 needs as many values."""
ACCEPTED = 2.0
"""Bounds: as many as an output of attention may be off by."""
WEIGHTS_RIGHT = "the returned weights are right too"
"""The detail of an outcome that passed, where weights were judged as well."""
WEIGHTS_NOT_JUDGED = "the returned weights are not judged here"
"""The same where they were not, as under dropout: some return the weights before it, and some those after."""


def is_pair(returned: Any) -> bool:
    """Whether this is `(output, weights)`: two tensors, or a tensor and None."""
    if not (isinstance(returned, tuple | list) and len(returned) == 2 and isinstance(returned[0], Tensor)):
        return False
    weights = _weights(returned[1])
    return weights is None or isinstance(weights, Tensor)


def output_of(returned: Any) -> Any:
    """The output: the first of a pair, else all that was returned."""
    return returned[0] if is_pair(returned) else returned


def weights_of(returned: Any) -> Tensor | None:
    """The weights, if any were returned."""
    return _weights(returned[1]) if is_pair(returned) else None


def weights_name(returned: Any) -> str:
    """The name of the weights in a dictionary, else empty."""
    return _name(returned[1]) if is_pair(returned) and isinstance(returned[1], dict) else ""


def ambiguous_pair(returned: Any) -> str:
    """Describes a tensor with a dictionary in which no name, or several, could mean the weights; else empty."""
    if is_pair(returned) or not isinstance(returned, tuple | list) or len(returned) != 2:
        return ""
    if not isinstance(returned[0], Tensor) or not isinstance(returned[1], dict):
        return ""
    names = [repr(str(name)) for name in returned[1]]
    more = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
    kind = f"a dictionary of {', '.join(names[:MOST_SHOWN])}{more}" if names else "an empty dictionary"
    return f"a Tensor and {kind}, in which no single tensor is named 'weights'"


def returning_output(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without the weights that it returns."""

    @wraps(function)
    def output_alone(*arguments: Any, **named: Any) -> Any:
        return output_of(function(*arguments, **named))

    return output_alone


def _weights(second: Any) -> Any:
    return second[_name(second)] if isinstance(second, dict) and _name(second) else second


def _name(dictionary: dict[Any, Any]) -> str:
    names = [name for name in WEIGHTS_NAMES if name in dictionary]
    return names[0] if len(names) == 1 else ""


def judge_with_weights(
    verdict: Verdict, weights: Tensor, expected: Weights | None, shape: tuple[int, ...], rows: Array | None
) -> Verdict:
    """The verdict on an output, extended by that on the weights, of shape … l s.

    `rows` are the judged queries, None for all. Without expected weights only the shape is checked.
    """
    complaint, ratio = _complaint(weights, expected, shape, rows)
    if verdict.status != Status.PASSED:
        says = f"the weights are wrong too: {complaint}" if complaint else "the weights are right" if expected else ""
        return replace(verdict, detail="; ".join(filter(None, (verdict.detail, says))))
    if complaint:
        return Verdict(Status.FAILED, f"the output is right, its weights are not: {complaint}", ratio, accept=ACCEPTED)
    return replace(verdict, detail=WEIGHTS_RIGHT if expected else WEIGHTS_NOT_JUDGED)


def _complaint(
    weights: Tensor, expected: Weights | None, shape: tuple[int, ...], rows: Array | None
) -> tuple[str, float]:
    """What is wrong with the weights, or empty; and their largest error in bounds."""
    if tuple(weights.shape) != shape:
        return f"weights have shape {tuple(weights.shape)}, should have {shape}", np.inf
    if not weights.is_floating_point():
        return f"weights are {str(weights.dtype)[6:]}, should be floating", np.inf
    if expected is None:
        return "", 0.0
    numbers, bounded = compare.numbers(weights), expected()
    numbers = numbers if rows is None else numbers[..., rows, :]
    judged = _judged(shape[-1])
    if len(judged) < shape[-1]:
        numbers = np.concatenate([numbers[..., judged], numbers.sum(-1, keepdims=True)], axis=-1)
    value, bound = bounded.value.reshape(numbers.shape), bounded.bound.reshape(numbers.shape)
    complaint = compare.difference(numbers, value, bound, name="weights", accept=ACCEPTED)
    return complaint or "", compare.error_ratio(numbers, value, ACCEPTED * bound)


def identity_values_of(lead: Sequence[int], keys: int) -> Array:
    """Values … s v over which an output is the weights: a column for each judged key, and of the others one of ones."""
    judged = _judged(keys)
    columns = np.zeros((keys, len(judged)))
    columns[judged, np.arange(len(judged))] = 1.0
    if len(judged) < keys:
        columns = np.concatenate([columns, np.ones((keys, 1))], axis=-1)
    return np.broadcast_to(columns, (*lead, *columns.shape))


def _judged(keys: int) -> Array:
    """The first key, the last, and others evenly between."""
    return np.unique(np.linspace(0, keys - 1, min(keys, JUDGED_KEYS)).astype(int)) if keys else np.arange(0)
