"""Correct attention weights in foreign styles."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import Variant
from attnsuite.cases.computations import widened
from attnsuite.contracts.steps.attention_weights.mutants import Weights

Array = np.ndarray[Any, Any]
Rule = Callable[[Tensor, Tensor], Tensor]
"""Weights of scores and of who is allowed, both … l s."""


def _function(softmax: Rule, share: Rule) -> Callable[..., Tensor]:
    def attention_weights(
        scores: Tensor,
        *,
        normaliser: str = "softmax",
        attn_mask: Tensor | None = None,
        lengths: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        weigh = softmax if normaliser == "softmax" else share
        return weigh(scores, _allowed(scores, attn_mask, lengths, is_causal))

    return attention_weights


def _allowed(scores: Tensor, mask: Tensor | None, lengths: Tensor | None, is_causal: bool) -> Tensor:
    keys, allowed = torch.arange(scores.shape[-1]), torch.ones(scores.shape, dtype=torch.bool)
    if mask is not None:
        allowed = allowed & mask
    if lengths is not None:
        allowed = allowed & (keys < (lengths[:, None, None] if lengths.dim() == 1 else lengths[..., None]))
    return allowed & (keys <= torch.arange(scores.shape[-2])[:, None]) if is_causal else allowed


def _library(scores: Tensor, allowed: Tensor) -> Tensor:
    """The NaN of an empty row is replaced by zeros."""
    return torch.where(allowed, scores, -math.inf).softmax(-1).nan_to_num(0.0)


def _by_logarithms(scores: Tensor, allowed: Tensor) -> Tensor:
    """A log-softmax, and the exponential of it: nothing is divided. The keys are the first axis."""
    shown = scores.masked_fill(~allowed, -math.inf).movedim(-1, 0)
    return torch.log_softmax(shown, 0).nan_to_num(-math.inf, neginf=-math.inf).exp().movedim(0, -1)


def _share(scores: Tensor, allowed: Tensor) -> Tensor:
    """Each sum runs from the last key to the first."""
    shown = scores * allowed
    total = shown.flip(-1).sum(-1, keepdim=True)
    return torch.where(total == 0, 0.0, shown * total.where(total != 0, 1.0).reciprocal())


def _row_by_row(powers: Callable[[Array], Array]) -> Rule:
    """Only the keys that a query may attend to are ever looked at."""

    def weigh(scores: Tensor, allowed: Tensor) -> Tensor:
        given, found = scores.double().numpy(), np.zeros(scores.shape)
        for place in np.ndindex(scores.shape[:-1]):
            keys = np.flatnonzero(allowed[place].numpy() & (given[place] > -np.inf))
            if len(keys):
                terms = powers(given[place][keys])
                found[place][keys] = terms / terms.sum()
        return torch.tensor(found, dtype=scores.dtype)

    return weigh


def variants() -> list[Variant]:
    """Two formulas, many ways to normalise."""
    library = _function(_library, _share)
    rows = (_row_by_row(lambda terms: np.exp(terms - terms.max())), _row_by_row(lambda terms: terms))
    return [
        Variant("library", "torch's softmax, its NaN made zero", widened(Weights, library)),
        Variant("own_dtype", "the same in the dtype itself, half types too", Weights.checked(library)),
        Variant("logarithms", "exponentials of a log-softmax", widened(Weights, _function(_by_logarithms, _share))),
        Variant("row_by_row", "numpy in float64, allowed keys alone", Weights.checked(_function(*rows))),
    ]
