"""Gradients that go wrong in common ways, in a backward pass that is written by hand, are named by what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import attnsuite


def mean(weighted: Tensor, axis: int = -1) -> Tensor:
    return weighted.sum(axis, keepdim=True)


def by_hand(
    *,
    softmax: Callable[[Tensor, Tensor], Tensor] = lambda p, dp: p * (dp - mean(p * dp)),
    scale: Callable[[float, Tensor], float] = lambda scale, query: scale,
    given: Callable[[Tensor, Tensor, Tensor, Tensor], Any] = lambda p, do, dq, dk: (dq, dk, p.mT @ do),
) -> Callable[..., Tensor]:
    """Attention whose backward pass has the textbook's five lines, some of which are changed."""

    class ByHand(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, causal: bool, factor: float) -> Tensor:
            scores = query @ key.mT * factor
            if causal:
                scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
            weights = scores.softmax(-1)
            ctx.save_for_backward(query, key, value, weights)
            ctx.factor = factor
            return weights @ value

        @staticmethod
        def backward(ctx: Any, do: Tensor) -> Any:
            query, key, value, p = ctx.saved_tensors
            ds = softmax(p, do @ value.mT) * scale(ctx.factor, query)
            return (*given(p, do, ds @ key, ds.mT @ query), None, None)

    def attention(
        query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False, scale: float | None = None
    ) -> Tensor:
        factor = query.shape[-1] ** -0.5 if scale is None else scale
        found: Tensor = ByHand.apply(query, key, value, is_causal, factor)  # type: ignore[no-untyped-call]
        return found

    return attention


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
        (by_hand(given=lambda p, do, dq, dk: (-dq, dk, p.mT @ do)), "negates_query_gradient"),
        (by_hand(given=lambda p, do, dq, dk: (dq, 2 * dk, p.mT @ do)), "doubles_key_gradient"),
        (by_hand(given=lambda p, do, dq, dk: (dq, dk, -p.mT @ do)), "negates_value_gradient"),
        (by_hand(given=lambda p, do, dq, dk: (dq, dk, 2 * p.mT @ do)), "doubles_value_gradient"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)  # fmt: skip
def test_every_wrong_gradient_has_the_name_of_what_is_wrong(attention: Callable[..., Tensor], name: str) -> None:
    cases = ("gradients/plain", "gradients/scaled", "gradients/causal_tall", "gradients/value_width")
    outcomes = attnsuite.check(attention, cases=cases, dtypes="float32")

    assert {outcome.diagnosis for outcome in outcomes if outcome.fails} == {(name,)}


@pytest.mark.parametrize(
    ("attention", "name"),
    [
        (by_hand(given=lambda p, do, dq, dk: (dk, dq, p.mT @ do)), "swaps_gradients_of_query_and_key"),
        (by_hand(given=lambda p, do, dq, dk: (dq, dk, do.clone())), "passes_output_gradient_to_value"),
        (by_hand(given=lambda p, do, dq, dk: (dq, dk, p @ do)), "does_not_turn_weights_for_value_gradient"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_what_fits_only_as_many_keys_as_queries_is_named_there(attention: Callable[..., Tensor], name: str) -> None:
    (outcome,) = attnsuite.check(attention, cases="gradients/causal", dtypes="float32")

    assert outcome.diagnosis == (name,)


def test_a_mean_of_the_output_s_gradient_over_the_width_is_named() -> None:
    attention = by_hand(softmax=lambda p, dp: p * (dp - mean(p * dp) / 8))  # 8 is the values' width in these
    outcomes = attnsuite.check(attention, cases=("gradients/plain", "gradients/causal_tall"), dtypes="float32")

    assert {outcome.diagnosis for outcome in outcomes if outcome.fails} == {("divides_mean_by_width_in_gradient",)}


def test_a_right_backward_pass_written_by_hand_passes() -> None:
    outcomes = attnsuite.check(by_hand(), cases="gradients", dtypes="float32")

    assert {outcome.status for outcome in outcomes} <= {"passed", "unsupported"}
