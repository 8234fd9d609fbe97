"""Weights returned with an output: the judged keys, honest weights, and each kind of wrong ones."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from attnsuite.cases.returned_weights import JUDGED_KEYS, WEIGHTS_RIGHT, identity_values_of
from attnsuite.contracts import contract
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import DTYPES
from attnsuite.worker.calling import run_calls

Change = Callable[[Tensor], Tensor]
CASES = {case.name: case for case in contract("attention").cases()}


def verdict(name: str, change: Change = lambda weights: weights, dtype: str = "float32") -> Verdict:
    """The verdict on an attention in plain torch that also returns its weights, changed."""

    def attention(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
        weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1)
        return weights @ value, change(weights)

    calls = CASES[name].calls(dtype)
    return CASES[name].verdict(calls, run_calls(attention, calls), CASES[name].expected(calls, {}))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["plain/small", "plain/ordinary", "gradients/plain"])
def test_honest_weights_pass_in_every_dtype(name: str, dtype: str) -> None:
    passed = verdict(name, dtype=dtype)

    assert (passed.status, passed.detail) == ("passed", WEIGHTS_RIGHT)


def many_keys() -> str:
    """A case with more keys than are judged one by one."""
    cases = (case for case in CASES.values() if case.family == "keys")
    return next(c.name for c in cases if JUDGED_KEYS < c.calls("float32")[0].tensors["key"].shape[-2] < 5000)


def off_by_a_hundredth_where_not_judged(weights: Tensor) -> Tensor:
    judged = identity_values_of((), weights.shape[-1])[:, :-1].any(-1)
    changed = weights.clone()
    changed[..., np.flatnonzero(~judged)[:1]] += 0.01
    return changed


@pytest.mark.parametrize(
    "change",
    [
        lambda weights: weights * 1.001,
        lambda weights: weights.mT.contiguous(),
        lambda weights: weights.log(),
        lambda weights: weights.mean(-3),
        lambda weights: (weights > 0.5).long(),
        lambda weights: weights.roll(1, -1),
        off_by_a_hundredth_where_not_judged,
    ],
    ids=["too large", "transposed", "logarithms", "of all heads", "rounded", "of other keys", "sum"],
)
def test_wrong_weights_are_found_where_the_output_is_right(change: Change) -> None:
    for name in ("plain/small", many_keys())[change is off_by_a_hundredth_where_not_judged :]:
        wrong = verdict(name, change)

        assert wrong.status == "failed"
        assert wrong.detail.startswith("the output is right, its weights are not: weights")
        assert not wrong.output_wrong, "no mutant explains them"


def test_of_many_keys_some_are_judged_and_the_sum_of_all() -> None:
    few, many = identity_values_of((2, 3), 7), identity_values_of((), 4000)

    assert few.shape == (2, 3, 7, 7)
    assert (few[0, 0] == np.eye(7)).all()
    assert many.shape == (4000, JUDGED_KEYS + 1)
    assert many[0, 0] == many[-1, -2] == 1, "the first and the last"
    assert (many[:, -1] == 1).all()
    assert identity_values_of((2,), 0).shape == (2, 0, 0)
