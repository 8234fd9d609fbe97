"""A causal mask that is applied too late is named by that."""

from __future__ import annotations

from torch import Tensor

import attnsuite


def hides_afterwards(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    weights = (query @ key.mT * query.shape[-1] ** -0.5).softmax(-1)
    return (weights.tril() if is_causal else weights) @ value


def test_the_future_that_is_hidden_after_the_softmax_is_named() -> None:
    cases = ("plain/small", "causal/square_16", "causal/square_33", "causal/more_keys", "causal/more_queries")
    outcomes = attnsuite.check(hides_afterwards, cases=cases, dtypes="float32")

    assert {outcome.diagnosis for outcome in outcomes if outcome.fails} == {("hides_future_after_softmax",)}
