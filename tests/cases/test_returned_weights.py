"""Weights beside an output: which keys are judged, that honest ones pass, and that each kind of wrong one is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from attnsuite.cases.returned_weights import JUDGED_KEYS, WEIGHTS_RIGHT, identity_values_of
from attnsuite.contracts import contract
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import DTYPES
from attnsuite.worker import ask

Change = Callable[[Tensor], Tensor]


def verdict(name: str, change: Change = lambda weights: weights, dtype: str = "float32") -> Verdict:
    """The judgement on an attention in plain torch that returns its weights, changed, too."""

    def attention(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
        weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1)
        return weights @ value, change(weights)

    case = next(case for case in contract("attention").cases() if case.name == name)
    calls = case.calls(dtype)
    truth = case.expected(calls, {})
    return case.verdict(calls, ask(attention, calls), truth)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["plain/small", "plain/ordinary", "gradients/plain"])
def test_honest_weights_pass_in_every_dtype(name: str, dtype: str) -> None:
    found = verdict(name, dtype=dtype)

    assert (found.status, found.detail) == ("passed", WEIGHTS_RIGHT)


def many_keys() -> str:
    """A case with more keys than are judged one by one."""
    cases = (case for case in contract("attention").cases() if case.family == "keys")
    return next(c.name for c in cases if JUDGED_KEYS < c.calls("float32")[0].tensors["key"].shape[-2] < 5000)


@pytest.mark.parametrize(
    "change",
    [
        lambda weights: weights * 1.001,
        lambda weights: weights.mT.contiguous(),
        lambda weights: weights.log(),
        lambda weights: weights.mean(-3),
        lambda weights: (weights > 0.5).long(),
        lambda weights: weights.roll(1, -1),
    ],
    ids=["a thousandth too large", "transposed", "logarithms", "of all heads together", "rounded", "of other keys"],
)
def test_wrong_weights_are_found_where_the_output_is_right(change: Change) -> None:
    for name in ("plain/small", many_keys()):
        found = verdict(name, change)

        assert found.status == "wrong"
        assert found.detail.startswith("the output is right, the weights beside it are not: weights")
        assert not found.output_wrong, "no mistake in the output is named for them"


def test_of_many_keys_some_are_judged_and_the_sum_of_all() -> None:
    few, many = identity_values_of((2, 3), 7), identity_values_of((), 4000)

    assert few.shape == (2, 3, 7, 7)
    assert (few[0, 0] == np.eye(7)).all()
    assert many.shape == (4000, JUDGED_KEYS + 1)
    assert many[0, 0] == many[-1, -2] == 1, "the first and the last"
    assert (many[:, -1] == 1).all()
    assert identity_values_of((2,), 0).shape == (2, 0, 0)


def test_a_weight_that_is_not_judged_itself_shows_in_the_sum() -> None:
    name = many_keys()
    judged = identity_values_of((), 4000)[:, :-1].any(-1)
    assert not judged[1], "so that the next to the first shows in the sum alone"

    def raised(weights: Tensor) -> Tensor:
        changed = weights.clone()
        keys = weights.shape[-1]
        hidden = np.flatnonzero(~identity_values_of((), keys)[:, :-1].any(-1))[0]
        changed[..., hidden] += 0.01
        return changed

    assert verdict(name, raised).status == "wrong"
