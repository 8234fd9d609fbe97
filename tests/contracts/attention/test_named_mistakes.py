"""Mistakes that are common, written by hand, are named by what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from mistaken import by_hand, mean
from torch import Tensor
from torch.nn.functional import dropout, scaled_dot_product_attention

import attnsuite
from attnsuite.cases.draws import replayed, replayed_draws


def hides_afterwards(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    weights = (query @ key.mT * query.shape[-1] ** -0.5).softmax(-1)
    return (weights.tril() if is_causal else weights) @ value


USUAL = ("gradients/plain", "gradients/scaled", "gradients/causal_tall", "gradients/value_width")
AS_MANY_KEYS = ("gradients/causal",)
CASES_OF = {
    "divides_mean_by_width_in_gradient": ("gradients/plain", "gradients/causal_tall"),
    "swaps_gradients_of_query_and_key": AS_MANY_KEYS,
    "passes_output_gradient_to_value": AS_MANY_KEYS,
    "does_not_turn_weights_for_value_gradient": AS_MANY_KEYS,
    "hides_future_after_softmax": ("plain/small", "causal/square_16", "causal/square_33", "causal/more_queries"),
}
"""By mistake, the cases that show it and no other, where the usual ones are not such."""


@pytest.mark.parametrize(
    ("attention", "name"),
    [
        (by_hand(scale=lambda scale, query: 1.0), "gradients_lack_scale"),
        (by_hand(scale=lambda scale, query: query.shape[-1] ** -0.5), "gradients_ignore_given_scale"),
        (by_hand(scale=lambda scale, query: scale**2), "gradients_apply_scale_twice"),
        (by_hand(softmax=lambda p, dp: p * dp), "gradient_lacks_mean"),
        (by_hand(softmax=lambda p, dp: p * (dp + mean(p * dp))), "adds_mean_in_gradient"),
        (by_hand(softmax=lambda p, dp: p * (dp - mean(p * dp, -2))), "takes_mean_over_queries_in_gradient"),
        (by_hand(softmax=lambda p, dp: p * (dp - mean(dp))), "takes_mean_without_weights_in_gradient"),
        (by_hand(softmax=lambda p, dp: p * (1 - p) * dp), "gradient_takes_diagonal_of_softmax"),
        (by_hand(softmax=lambda p, dp: (dp - mean(p * dp)) * (p > 0)), "scores_gradient_lacks_weights"),
        (by_hand(softmax=lambda p, dp: dp * (p > 0)), "gradient_skips_softmax"),
        (by_hand(gradients=lambda p, do, dq, dk: (-dq, dk, p.mT @ do)), "negates_query_gradient"),
        (by_hand(gradients=lambda p, do, dq, dk: (dq, 2 * dk, p.mT @ do)), "doubles_key_gradient"),
        (by_hand(gradients=lambda p, do, dq, dk: (dq, dk, -p.mT @ do)), "negates_value_gradient"),
        (by_hand(gradients=lambda p, do, dq, dk: (dq, dk, 2 * p.mT @ do)), "doubles_value_gradient"),
        # 8 is the values' width in these cases
        (by_hand(softmax=lambda p, dp: p * (dp - mean(p * dp) / 8)), "divides_mean_by_width_in_gradient"),
        # where there are as many keys as queries
        (by_hand(gradients=lambda p, do, dq, dk: (dk, dq, p.mT @ do)), "swaps_gradients_of_query_and_key"),
        (by_hand(gradients=lambda p, do, dq, dk: (dq, dk, do.clone())), "passes_output_gradient_to_value"),
        (by_hand(gradients=lambda p, do, dq, dk: (dq, dk, p @ do)), "does_not_turn_weights_for_value_gradient"),
        (hides_afterwards, "hides_future_after_softmax"),
    ],
    ids=lambda gradients: gradients if isinstance(gradients, str) else "",
)  # fmt: skip
def test_a_mistake_has_the_name_of_what_is_wrong(attention: Callable[..., Tensor], name: str) -> None:
    outcomes = attnsuite.check(attention, cases=CASES_OF.get(name, USUAL), dtypes="float32")

    assert {outcome.diagnosis for outcome in outcomes if outcome.fails} == {(name,)}


def drops_the_output(query: Tensor, key: Tensor, value: Tensor, *, dropout_p: float = 0.0) -> Tensor:
    return dropout((query @ key.mT * query.shape[-1] ** -0.5).softmax(-1) @ value, dropout_p)


def normalises_again(query: Tensor, key: Tensor, value: Tensor, *, dropout_p: float = 0.0) -> Tensor:
    weights = dropout((query @ key.mT * query.shape[-1] ** -0.5).softmax(-1), dropout_p)
    total = weights.sum(-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1.0) @ value


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attention", "name"), [(drops_the_output, "drops_outputs"), (normalises_again, "normalises_after_dropout")]
)
def test_what_hangs_on_the_whole_draw_is_named(attention: Callable[..., Tensor], name: str) -> None:
    outcomes = attnsuite.check(attention, cases=("dropout/gradient", "dropout/gradient_one_query"), dtypes="float32")

    failing = [outcome for outcome in outcomes if outcome.fails]
    assert failing
    assert all(name in outcome.diagnosis for outcome in failing)


def test_a_draw_is_shown_at_the_beginning_of_its_seed_alone() -> None:
    kept = torch.tensor([[True, False]])

    with replayed_draws({7: kept}):
        torch.manual_seed(7)
        first = replayed(torch.empty(1, 2))
        other_shape = replayed(torch.empty(2, 2))
        torch.rand(1)
        later = replayed(torch.empty(1, 2))
    torch.manual_seed(7)

    assert first is kept
    assert (other_shape, later, replayed(torch.empty(1, 2))) == (None, None, None)


CASES = ("dropout", "combined/*+e96+*dropout*", "combined/*+e65+*dropout*", "combined/*mask*dropout*")


def ignores_dropout(query: Tensor, key: Tensor, value: Tensor, *, dropout_p: float = 0.0, **options: Any) -> Tensor:
    return scaled_dot_product_attention(query, key, value, **options)


def forgets_to_rescale(query: Tensor, key: Tensor, value: Tensor, *, dropout_p: float = 0.0) -> Tensor:
    return scaled_dot_product_attention(query, key, value, dropout_p=dropout_p) * (1 - dropout_p)


@pytest.mark.slow
def test_ignored_dropout_is_named_nearly_everywhere_and_as_one_mistake() -> None:
    wrong = [
        outcome
        for outcome in attnsuite.check(ignores_dropout, cases=CASES, dtypes="float32")
        if outcome.status == "failed"
    ]

    named = Counter("ignores_dropout" in outcome.diagnosis for outcome in wrong)
    assert named[True] >= 0.95 * named.total(), [outcome.detail for outcome in wrong if not outcome.diagnosis]
    assert any("dropped nothing" in outcome.detail for outcome in wrong if outcome.diagnosis)


@pytest.mark.slow
def test_another_mistake_in_dropout_is_not_named_so() -> None:
    wrong = [
        outcome for outcome in attnsuite.check(forgets_to_rescale, cases="dropout", dtypes="float32") if outcome.fails
    ]

    assert wrong
    assert not any("ignores_dropout" in outcome.diagnosis for outcome in wrong)
