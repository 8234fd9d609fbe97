"""What is computed in float32 where float64 is asked is told by its errors, and nothing else is taken for that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest
import torch
from torch import Tensor

import attnsuite
from attnsuite.cases import Calls, Case, Mutant
from attnsuite.conformance import diagnosis
from attnsuite.conformance.diagnosis import PART_IN_FLOAT32
from attnsuite.conformance.float32 import InFloat32, in_float32
from attnsuite.contracts import contract
from attnsuite.worker import ask

FAMILIES = ("plain", "causal", "keys", "gradients", "float_mask", "bool_mask", "metamorphic", "documents", "behaviour")
OTHERS = ("float_mask", "causal", "gradients", "numerics", "gradient_numerics", "eps", "size", "batch")
"""Families of which one case is looked at: where mistakes are small, or bounds are wide."""
Kernel = Callable[..., Tensor]


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


def narrow_weights(
    query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    scores = dense(query, key, value, attn_mask, is_causal).float()
    return scores.softmax(-1).nan_to_num(0.0).to(value.dtype) @ value


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "name", "share"),
    [(narrow_inside, "computes_float64_in_float32", 0.95), (narrow_weights, PART_IN_FLOAT32, 0.75)],
)
def test_what_is_computed_in_float32_is_named_nearly_everywhere(kernel: Kernel, name: str, share: float) -> None:
    outcomes = [each for each in attnsuite.check(kernel, cases=FAMILIES, dtypes=("float64", "float32")) if each.fails]

    named = Counter(outcome.diagnosis for outcome in outcomes if outcome.dtype == "float64")
    assert named[(name,)] >= share * named.total(), named
    assert not any(outcome.diagnosis for outcome in outcomes if outcome.dtype == "float32")


def test_it_is_said_in_words() -> None:
    (outcome,) = attnsuite.check(narrow_inside, cases="plain/small", dtypes="float64")

    says = "off as far as float32 rounds, in numbers that float32 has: float64 is computed in float32; output["
    assert outcome.detail.startswith(says)


@dataclass(frozen=True)
class Asked:
    """A case in float64, whose truth takes longer than an answer: made once for all deviations."""

    case: Case

    @cached_property
    def calls(self) -> Calls:
        return self.case.calls("float64")

    @cached_property
    def truth(self) -> Any:
        return self.case.expected(self.calls, {})


def told(asked: Asked, deviation: Mutant) -> InFloat32 | None:
    """What is made of the wrong answer of a deviation; None of a right one."""
    case, calls, truth = asked.case, asked.calls, asked.truth
    replies = ask(deviation.function, calls)
    wrong = case.verdict(calls, replies, truth).output_wrong
    return in_float32(case, calls, replies, truth, {}) if wrong else None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attention", "attention_weights", "additive_attention", "add_norm", "kernel_pooling"])
def test_no_other_mistake_is_taken_for_it(name: str) -> None:
    """A deviation may be off by as much in a single case: then it is outvoted."""
    of = contract(name)
    cases = [each for each in of.cases() if "float64" in each.dtypes and not each.in_worker]
    chosen = [each for each in cases if each.family == of.core][:3]
    chosen += [next((each for each in cases if each.family == family), chosen[0]) for family in OTHERS]

    asked = [Asked(case) for case in chosen]
    found = {each.name: Counter(told(one, each) for one in asked) for each in of.mutants()}

    entire = [name for name, counts in found.items() if counts[InFloat32.ALL]]
    partly = [name for name, counts in found.items() if counts[InFloat32.PART] > max(1, 3 * counts[InFloat32.NOTHING])]
    assert all("float32" in name for name in entire), {name: found[name] for name in entire}
    assert set(partly) - {"makes_scale_in_default_dtype"} <= {each for each in found if "float32" in each}


@pytest.mark.slow
def test_a_factor_as_small_is_not_taken_for_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "WORK_ON_PAIRS", 0.0)  # pairs of mistakes are looked for after this is decided

    def divides_by_more(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        powers = dense(query, key, value, None, False)
        powers = (powers - powers.amax(-1, keepdim=True)).exp()
        return powers @ value / (powers.sum(-1, keepdim=True) + 1e-7)

    outcomes = [each for each in attnsuite.check(divides_by_more, cases="plain", dtypes="float64") if each.fails]

    assert outcomes
    assert not any(PART_IN_FLOAT32 in outcome.diagnosis for outcome in outcomes)
