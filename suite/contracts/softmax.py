"""The softmax of several contracts' computations, with zeros for empty rows, and mistakes in it."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attnsuite.cases.changes import turned
from attnsuite.cases.mutants import Mutation, with_arguments


def softmax(scores: Tensor) -> Tensor:
    """Over the last axis; a row of −∞ alone gives zeros."""
    if not scores.shape[-1]:
        return scores.clone()
    largest = scores.amax(-1, keepdim=True).clamp_min(torch.finfo(scores.dtype).min)
    return shares((scores - largest).exp())


def shares(terms: Tensor) -> Tensor:
    """Each number divided by the sum of its row; zeros where that is 0."""
    total = terms.sum(-1, keepdim=True)
    return terms / total.masked_fill(total == 0, 1.0)


def unguarded(terms: Tensor) -> Tensor:
    """Each number divided by the sum of its row, which must not be 0."""
    return terms / terms.sum(-1, keepdim=True)


def overflowing(scores: Tensor) -> Tensor:
    """The mistake of not subtracting the largest score."""
    return shares(scores.exp())


def over_queries(scores: Tensor) -> Tensor:
    """The mistake of a softmax over the queries."""
    return softmax(scores.mT).mT


def masked(scores: Tensor, allowed: Tensor) -> Tensor:
    """Scores of −∞ where a query may not attend."""
    return scores.masked_fill(~allowed, -math.inf)


def fill(number: float, *, but_empty_rows: bool = False) -> Callable[[Tensor, Tensor], Tensor]:
    """The mistake of another number than −∞ for masked scores; `but_empty_rows` keeps −∞ in rows masked as a whole."""

    def mask(scores: Tensor, allowed: Tensor) -> Tensor:
        filled = scores.masked_fill(~allowed, number)
        return filled.masked_fill(~allowed.any(-1, keepdim=True), -math.inf) if but_empty_rows else filled

    return mask


OF_MASKS = {
    "inverted_mask": Mutation("the mask is inverted: True hides", with_arguments(allowed=torch.logical_not)),
    "ignored_mask": Mutation("the mask is ignored", lambda scores, allowed: scores.clone()),
    "transposed_mask": Mutation("the mask is transposed where it is square", with_arguments(allowed=turned)),
}
"""Mutants of a step `mask`, which gets scores and a mask."""
