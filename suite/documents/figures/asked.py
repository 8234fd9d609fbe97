"""The weights of an attention that a user names: asked in float32, and checked before they are drawn."""

from __future__ import annotations

import torch
from torch import Tensor

from attnsuite.documents.figures.implementations import implementation, weights_of
from attnsuite.model import UsageError
from attnsuite.registry.loading import as_plug, told
from attnsuite.registry.plugging import gaps

ROUNDING = 1e-3
"""How far a row's sum may lie from 1 before the picture says so: float32 is far closer, and eyes see no less."""


def asked_weights(target: str, query: Tensor, key: Tensor, causal: bool) -> tuple[str, Tensor, str]:
    """The full name of an attention, its weights, l s, and a remark where its rows do not sum to 1.

    Queries l e and keys s e are given as one item with one head. Raises UsageError where the attention cannot be
    asked, raises, or answers with something else than finite numbers of the right shape.
    """
    loaded = implementation(target, "attention")
    name = loaded.declaration.full_name
    if causal and (reason := gaps(loaded.declaration).get("causal")):
        raise UsageError(f"{name} is not causal: {reason}")
    query, key = (each.float()[None, None] for each in (query, key))
    with told(f"{name} gave no weights:"):
        weights = weights_of(as_plug(loaded), query, key, **({"is_causal": True} if causal else {}))
    if not weights.isfinite().all():
        raise UsageError(f"{name} answered with NaN or infinity, which cannot be drawn")
    return name, weights[0, 0], _remark(weights)


def _remark(weights: Tensor) -> str:
    sums = weights.sum(-1)
    if torch.all((sums - 1).abs() <= ROUNDING):
        return ""
    return f"rows sum to {float(sums.min()):.4g} at least and {float(sums.max()):.4g} at most, not to 1"
