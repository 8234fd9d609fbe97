"""Two things returned at once, `(output, weights)`, as many attentions do: which of them is the output.

The second may be a dictionary that holds the weights under one plain name.

Weights that come along with an output: judged too, so that an author learns which of the two is wrong.
"""

from __future__ import annotations

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

TOGETHER = (tuple, list)
"""What two things are returned in; a subclass with names for them counts, too."""
WEIGHTS_NAMES = ("weights", "attention_weights", "attn_weights", "attention", "attn")
"""What the weights may be called in a dictionary, which has one of these names."""
MOST_SHOWN = 3
"""Names in a dictionary that are shown."""


def is_pair(returned: Any) -> bool:
    """Whether this is `(output, weights)`: two tensors, or one and None, as where weights were not wanted."""
    if not _are_two(returned) or not isinstance(returned[0], Tensor):
        return False
    weights = _beside(returned[1])
    return weights is None or isinstance(weights, Tensor)


def output_of(returned: Any) -> Any:
    """The output of what was returned: the first of a pair, else all of it."""
    return returned[0] if is_pair(returned) else returned


def weights_of(returned: Any) -> Tensor | None:
    """The weights that came along, where any did."""
    return _beside(returned[1]) if is_pair(returned) else None


def weights_name(returned: Any) -> str:
    """The name of the weights where they came along in a dictionary, else empty."""
    return _name(returned[1]) if is_pair(returned) and isinstance(returned[1], dict) else ""


def ambiguous_pair(returned: Any) -> str:
    """What was returned, in words, where that is a tensor beside a dictionary of which it is not clear what the weights
    are; else empty.
    """
    if not _are_two(returned) or not isinstance(returned[0], Tensor) or not isinstance(returned[1], dict):
        return ""
    if is_pair(returned):
        return ""
    names = [repr(str(name)) for name in returned[1]]
    shown = ", ".join(names[:MOST_SHOWN]) + (f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else "")
    of = f"a dictionary of {shown}" if names else "an empty dictionary"
    return f"a Tensor beside {of}, which says of no one tensor that it is 'weights'"


def returning_output(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function for a caller who expects an output and nothing beside it."""

    @wraps(function)
    def answer(*arguments: Any, **named: Any) -> Any:
        return output_of(function(*arguments, **named))

    return answer


def _are_two(returned: Any) -> bool:
    return isinstance(returned, TOGETHER) and len(returned) == 2


def _beside(second: Any) -> Any:
    """The weights, where the second of two is a dictionary with a name for them; else itself."""
    return second[_name(second)] if isinstance(second, dict) and _name(second) else second


def _name(found: dict[Any, Any]) -> str:
    """The one plain name of weights that a dictionary has; empty where it has none or several."""
    names = [name for name in WEIGHTS_NAMES if name in found]
    return names[0] if len(names) == 1 else ""


Array = np.ndarray[Any, Any]
Weights = Callable[[], Bounded]
"""Makes the true weights of the keys that are judged: the answer over the values of `identity_values_of`."""
JUDGED_KEYS = 256
"""Of more keys than this, so many are judged, and the sum of all: a weight for each of 70,000 needs as many values."""

WEIGHTS_RIGHT = "the weights that come along are right too"
"""The detail of an outcome that passed, where weights were judged as well."""
WEIGHTS_NOT_JUDGED = "weights come along, and no weights are judged here"
"""The same where they were not, as under dropout, of which some return the weights before it and some those after."""


def judge_with_weights(
    found: Verdict, given: Tensor, due: Weights | None, shape: tuple[int, ...], rows: Array | None
) -> Verdict:
    """A judgement on an output, with what there is to say of the weights beside it.

    `shape` is what they should have, … l s; `rows` are the queries that are judged, None for all. Where nothing is due
    of them, their shape alone is looked at.
    """
    complaint, ratio = _complaint(given, due, shape, rows)
    if found.status != Status.PASSED:
        says = f"the weights are wrong too: {complaint}" if complaint else "the weights are right" if due else ""
        return replace(found, detail="; ".join(filter(None, (found.detail, says))))
    if complaint:
        return Verdict(Status.WRONG, f"the output is right, the weights beside it are not: {complaint}", ratio)
    return replace(found, detail=WEIGHTS_RIGHT if due else WEIGHTS_NOT_JUDGED)


def _complaint(given: Tensor, due: Weights | None, shape: tuple[int, ...], rows: Array | None) -> tuple[str, float]:
    """What is wrong with the weights, or empty; and their largest error in bounds."""
    if tuple(given.shape) != shape:
        return f"weights have shape {tuple(given.shape)}, should have {shape}", np.inf
    if not given.is_floating_point():
        return f"weights are {str(given.dtype)[6:]}, should be floating", np.inf
    if due is None:
        return "", 0.0
    numbers, truth = compare.numbers(given), due()
    numbers = _read(numbers if rows is None else numbers[..., rows, :])
    value, bound = (each.reshape(numbers.shape) for each in (truth.value, truth.bound))
    ratio = compare.error_ratio(numbers, value, bound)
    return compare.difference(numbers, value, bound, name="weights", accept=ACCEPTED) or "", ratio


def identity_values_of(lead: Sequence[int], keys: int) -> Array:
    """Values … s v over which an answer is the weights: a column for each key that is judged; of more, one of ones."""
    judged = _judged(keys)
    columns = np.zeros((keys, len(judged)))
    columns[judged, np.arange(len(judged))] = 1.0
    if len(judged) < keys:
        columns = np.concatenate([columns, np.ones((keys, 1))], axis=-1)
    return np.broadcast_to(columns, (*lead, *columns.shape))


def _read(weights: Array) -> Array:
    """What of weights is judged, as an answer over those values has it."""
    judged = _judged(weights.shape[-1])
    if len(judged) == weights.shape[-1]:
        return weights
    return np.concatenate([weights[..., judged], weights.sum(-1, keepdims=True)], axis=-1)


def _judged(keys: int) -> Array:
    """The first key, the last, and as many as there is room for, evenly between."""
    return np.unique(np.linspace(0, keys - 1, min(keys, JUDGED_KEYS)).astype(int)) if keys else np.arange(0)


ACCEPTED = 2.0
"""Bounds: as many as an output of attention may be off by."""
