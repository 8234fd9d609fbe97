"""Weights that come along with an output: judged too, so that an author learns which of the two is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from attnsuite.judging import compare
from attnsuite.judging.precision import Bounded
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import Status

Array = np.ndarray[Any, Any]
Weights = Callable[[], Bounded]
"""Makes the true weights of the keys that are judged: the answer over the values of `telling`."""
JUDGED_KEYS = 256
"""Of more keys than this, so many are judged, and the sum of all: a weight for each of 70,000 needs as many values."""

RIGHT = "the weights that come along are right too"
"""The detail of an outcome that passed, where weights were judged as well."""
ALONE = "weights come along, and no weights are judged here"
"""The same where they were not, as under dropout, of which some return the weights before it and some those after."""


def judged(found: Verdict, given: Tensor, due: Weights | None, shape: tuple[int, ...], rows: Array | None) -> Verdict:
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
    return replace(found, detail=RIGHT if due else ALONE)


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


def telling(lead: Sequence[int], keys: int) -> Array:
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
