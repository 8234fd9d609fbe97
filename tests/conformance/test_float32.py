"""What is computed in float32 where float64 is asked is told by its errors, and nothing else is taken for that."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Tensor

import attnsuite
from attnsuite.cases import Mutant
from attnsuite.conformance.case_tests import CaseTest, CaseTests
from attnsuite.conformance.float32 import in_float32
from attnsuite.contracts import contract
from attnsuite.worker.calling import run_calls

FAMILIES = ("plain", "causal", "keys", "gradients", "float_mask", "bool_mask", "metamorphic", "documents", "behaviour")
OTHERS = ("float_mask", "causal", "gradients", "numerics", "gradient_numerics", "eps", "size", "batch")
"""Families of which one case is looked at: where mistakes are small, or bounds are wide."""


def dense(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
    scores = query @ key.mT / query.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    return scores


def narrow_inside(
    query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    """In tiles, so that no other kernel rounds as it does."""
    q, k, v = query.float(), key.float(), value.float()
    mask = attn_mask.float() if attn_mask is not None and attn_mask.dtype != torch.bool else attn_mask
    scores = dense(q, k, v, mask, is_causal)
    largest = scores.amax(-1, keepdim=True).nan_to_num(neginf=0.0) if scores.shape[-1] else 0.0
    powers = (scores - largest).exp()
    parts = [powers[..., at : at + 3] @ v[..., at : at + 3, :] for at in range(0, max(1, v.shape[-2]), 3)]
    total = powers.sum(-1, keepdim=True)
    return (sum(parts) / torch.where(total == 0, 1.0, total)).to(query.dtype)


@pytest.mark.slow
def test_what_is_computed_in_float32_is_named_nearly_everywhere() -> None:
    checked = attnsuite.check(narrow_inside, cases=FAMILIES, dtypes=("float64", "float32"))
    outcomes = [each for each in checked if each.fails]

    named = Counter(outcome.diagnosis for outcome in outcomes if outcome.dtype == "float64")
    assert named["computes_float64_in_float32",] >= 0.95 * named.total(), named
    assert not any(outcome.diagnosis for outcome in outcomes if outcome.dtype == "float32")


def test_the_diagnosis_is_in_words() -> None:
    (outcome,) = attnsuite.check(narrow_inside, cases="plain/small", dtypes="float64")

    says = "off as far as float32 rounds, in numbers that float32 has: float64 is computed in float32; output["
    assert outcome.detail.startswith(says)


def is_taken_for_float32(test: CaseTest, mutant: Mutant) -> bool:
    """Whether the wrong result of a mutant is taken for one that was computed in float32."""
    replies = run_calls(mutant.function, test.calls)
    wrong = test.case.verdict(test.calls, replies, test.expected).output_wrong
    return wrong and in_float32(test.case, test.calls, replies, test.expected, {})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attention", "attention_weights", "additive_attention", "add_norm", "kernel_pooling"])
def test_no_other_mistake_is_taken_for_it(name: str) -> None:
    of = contract(name)
    cases = [each for each in of.cases() if "float64" in each.dtypes and not each.in_worker]
    chosen = [each for each in cases if each.family == of.core][:3]
    chosen += [next((each for each in cases if each.family == family), chosen[0]) for family in OTHERS]

    tests = [CaseTests(of, keep=False).test(case, "float64", {}) for case in chosen]
    taken = [mutant.name for mutant in of.mutants() if any(is_taken_for_float32(test, mutant) for test in tests)]

    assert all("float32" in name for name in taken), taken
