"""Dropout that is ignored has one name, whatever a case reads off the answer."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import attnsuite

CASES = ("dropout", "combined/*+e96+*dropout*", "combined/*+e65+*dropout*", "combined/*mask*dropout*")


def ignores_dropout(query: Tensor, key: Tensor, value: Tensor, *, dropout_p: float = 0.0, **options: Any) -> Tensor:
    return scaled_dot_product_attention(query, key, value, **options)


def forgets_to_rescale(query: Tensor, key: Tensor, value: Tensor, *, dropout_p: float = 0.0) -> Tensor:
    return scaled_dot_product_attention(query, key, value, dropout_p=dropout_p) * (1 - dropout_p)


@pytest.mark.slow
def test_ignored_dropout_is_named_nearly_everywhere_and_as_one_mistake() -> None:
    wrong = [
        each for each in attnsuite.check(ignores_dropout, cases=CASES, dtypes="float32") if each.status == "failed"
    ]

    named = Counter("ignores_dropout" in outcome.diagnosis for outcome in wrong)
    assert named[True] >= 0.95 * named.total(), [each.detail for each in wrong if not each.diagnosis]
    assert any("dropped nothing" in outcome.detail for outcome in wrong if outcome.diagnosis)


@pytest.mark.slow
def test_another_mistake_in_dropout_is_not_named_so() -> None:
    wrong = [each for each in attnsuite.check(forgets_to_rescale, cases="dropout", dtypes="float32") if each.fails]

    assert wrong
    assert not any("ignores_dropout" in outcome.diagnosis for outcome in wrong)
