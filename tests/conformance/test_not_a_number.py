"""Powers that overflow are named by where the NaN stand; NaN everywhere alone names nothing."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import attnsuite


def without_largest(
    query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    """The softmax as it is written down, in which powers overflow, or vanish all together."""
    wide = torch.promote_types(query.dtype, torch.float32)
    scores = query.to(wide) @ key.to(wide).mT / math.sqrt(query.shape[-1])
    if attn_mask is not None:
        mask = attn_mask if attn_mask.dtype != torch.bool else torch.where(attn_mask, 0.0, -math.inf).to(wide)
        scores = scores + mask
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    powers = scores.exp()
    return (powers / powers.sum(-1, keepdim=True) @ value.to(wide)).to(query.dtype)


@pytest.mark.parametrize(
    "case", ["numerics/huge_logits_causal", "numerics/huge_logits", "numerics/far_below_zero", "window/huge_logits"]
)
def test_powers_that_overflow_or_vanish_are_named(case: str) -> None:
    cases = ("numerics/huge_logits_causal", "numerics/huge_logits", "numerics/huge_equal_logits", case)
    outcomes = attnsuite.check(without_largest, cases=cases, dtypes=("float64", "float32"))
    failing = {outcome.diagnosis for outcome in outcomes if outcome.fails}

    assert failing == {("does_not_subtract_largest",)}


def test_what_is_nan_everywhere_is_no_mistake_with_masks_where_overflow_is_established() -> None:
    everywhere = ("numerics/allowed_below_fill", "numerics/far_below_zero_masked")
    cases = ("numerics/huge_logits_causal", "numerics/huge_logits", *everywhere)
    outcomes = attnsuite.check(without_largest, cases=cases, dtypes=("float64", "float32"))

    assert {outcome.diagnosis for outcome in outcomes if outcome.fails} == {("does_not_subtract_largest",)}


def test_nan_everywhere_that_equals_several_mistakes_names_none_of_them() -> None:
    (outcome,) = attnsuite.check(without_largest, cases="numerics/allowed_below_fill", dtypes="float32")

    assert outcome.status == "wrong"
    assert outcome.diagnosis == ()
