"""How replies are held against what is due: form first, then numbers; and when two replies are alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from attnsuite.cases import Reply
from attnsuite.cases.expected import Form, NearInNorm, WithinBounds, judge
from attnsuite.judging.precision import Bounded

FORM = Form((2, 3), torch.float64)
RIGHT = torch.arange(6.0).double().reshape(2, 3)
WITHIN = WithinBounds(FORM, Bounded(RIGHT.numpy(), np.full((2, 3), 0.1)), 2.0)
NEAR = NearInNorm(FORM, RIGHT.numpy(), np.full(2, 0.1))


@pytest.mark.parametrize(
    ("changes", "status", "says"),
    [
        ({"raised": "ValueError: no", "output": None}, "raised", "ValueError: no"),
        ({"output": None, "kind": "tuple"}, "wrong", "returned tuple, should return a Tensor"),
        (
            {"output": None, "kind": "None", "no_model": True},
            "wrong",
            "returned None in place of a model, should return a callable",
        ),
        ({"output": RIGHT.float()}, "wrong", "output is float32, should be float64"),
        ({"output": RIGHT.mT}, "wrong", "output has shape (3, 2), should have (2, 3)"),
        ({"changed": ("x",)}, "wrong", "changed its input x"),
        ({"aliased": ("x", "y")}, "wrong", "the output shares memory with x and y"),
        ({"overwritten": True}, "wrong", "a later call changed this output"),
    ],
)
@pytest.mark.parametrize("due", [WITHIN, NEAR])
def test_the_form_is_judged_before_any_number(due: Any, changes: dict[str, Any], status: str, says: str) -> None:
    found = due.verdict(replace(Reply(RIGHT), **changes))

    assert (found.status, found.detail, found.output_wrong) == (status, says, False)


@pytest.mark.parametrize(("off", "status"), [(0.0, "passed"), (0.19, "passed"), (0.21, "wrong"), (np.nan, "wrong")])
def test_an_element_may_be_off_by_as_many_bounds_as_are_accepted(off: float, status: str) -> None:
    moved = RIGHT.clone()
    moved[1, 2] += off

    found = WITHIN.verdict(Reply(moved))

    assert found.status == status
    assert found.output_wrong == (status == "wrong")
    assert status == "passed" or found.detail.startswith("output[1, 2] is ")


def test_gradients_may_be_off_by_one_bound() -> None:
    form, bounded = replace(FORM, gradients={"x": (2,)}), Bounded(np.ones(2), np.full(2, 0.1))
    due = replace(WITHIN, form=form, gradients={"x": bounded})

    def judged(gradient: torch.Tensor | None) -> str:
        return due.verdict(Reply(RIGHT, gradients={"x": gradient})).detail

    assert judged(torch.tensor([1.0, 1.09]).double()) == ""
    assert judged(torch.tensor([1.0, 1.11]).double()).startswith("gradient of x[1] is 1.11")
    assert judged(None) == "no gradient reached x"
    assert judged(torch.ones(3).double()) == "gradient of x has shape (3,), should have (2,)"


def test_rows_that_are_not_judged_must_be_finite_all_the_same() -> None:
    due = replace(WITHIN, output=Bounded(RIGHT.numpy()[:1], np.full((1, 3), 0.1)), rows=np.array([0]))
    spoilt, other = RIGHT.clone(), RIGHT.clone()
    spoilt[1, 0], other[1, 0] = torch.inf, 7.0

    assert due.verdict(Reply(other)).status == "passed"
    assert due.verdict(Reply(spoilt)).detail == "output holds 1 numbers that are infinite or NaN"


@pytest.mark.parametrize("due", [WITHIN, NEAR])
def test_replies_are_alike_whose_numbers_are_however_wrong_they_are(due: Any) -> None:
    wrong = RIGHT + 5

    assert due.alike(Reply(wrong), Reply(wrong + 0.01))
    assert not due.alike(Reply(wrong), Reply(RIGHT))
    assert not due.alike(Reply(wrong), Reply(None))
    assert not due.alike(Reply(wrong), Reply(wrong[:1]))


@pytest.mark.parametrize("due", [WITHIN, NEAR])
def test_nan_is_alike_in_the_same_places_alone(due: Any) -> None:
    one, other = RIGHT.clone(), RIGHT.clone()
    one[0], other[1] = torch.nan, torch.nan

    assert due.alike(Reply(one), Reply(one))
    assert not due.alike(Reply(one), Reply(other))


def test_of_several_calls_the_wrong_one_is_named_and_the_largest_error_kept() -> None:
    off = RIGHT + 0.05

    passed = judge([WITHIN, WITHIN], [Reply(off), Reply(RIGHT)])
    wrong = judge([WITHIN, WITHIN], [Reply(RIGHT), Reply(off + 1)])

    assert (passed.status, passed.error_ratio) == ("passed", pytest.approx(0.5))
    assert wrong.detail.startswith("call 2 of 2: output[0, 0] is 1.05")
    assert judge([WITHIN], [Reply(off + 1)]).detail.startswith("output[0, 0]")


@pytest.mark.parametrize(
    ("came", "true", "status"),
    [
        ([torch.inf, 1.0], [69_000.0, 1.0], "passed"),  # float16 ends at 65,504
        ([torch.inf, 1.0], [65_000.0, 1.0], "passed"),  # within the bound of it
        ([torch.inf, 1.0], [60_000.0, 1.0], "wrong"),
        ([-torch.inf, 1.0], [69_000.0, 1.0], "wrong"),
        ([torch.nan, 1.0], [69_000.0, 1.0], "wrong"),
        ([torch.inf, torch.inf], [69_000.0, 1.0], "wrong"),
    ],
)
def test_a_truth_beyond_the_range_of_the_dtype_may_be_infinite(
    came: list[float], true: list[float], status: str
) -> None:
    form = Form((2,), torch.float16, {"x": (2,)})
    beyond, near = Bounded(np.array(true), np.full(2, 600.0)), Bounded(np.ones(2), np.full(2, 0.1))
    numbers, ones = torch.tensor(came).half(), torch.ones(2).half()

    assert (
        WithinBounds(form, beyond, gradients={"x": near}).verdict(Reply(numbers, gradients={"x": ones})).status
        == status
    )
    assert (
        WithinBounds(form, near, gradients={"x": beyond}).verdict(Reply(ones, gradients={"x": numbers})).status
        == status
    )


def test_a_clear_failure_is_reported_before_a_marginal_one() -> None:
    close, far = RIGHT.clone(), RIGHT + 5
    close[0, 0] += 0.21

    found = judge([WITHIN, WITHIN], [Reply(close), Reply(far)])

    assert found.detail.startswith("call 2 of 2: output[0, 0] is 5")
    assert not found.marginal
    assert judge([WITHIN, WITHIN], [Reply(close), Reply(RIGHT)]).marginal


def test_a_clear_error_of_a_gradient_is_not_marginal_beside_a_marginal_output() -> None:
    form = replace(FORM, gradients={"x": (2,)})
    due = replace(WITHIN, form=form, gradients={"x": Bounded(np.ones(2), np.full(2, 0.1))})
    close = RIGHT.clone()
    close[0, 0] += 0.21

    assert due.verdict(Reply(close, gradients={"x": torch.ones(2).double()})).marginal
    assert not due.verdict(Reply(close, gradients={"x": torch.zeros(2).double()})).marginal
