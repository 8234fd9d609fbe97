"""Replies are compared with expected results: form first, then numbers; and two replies with each other."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from attnsuite.cases import Reply
from attnsuite.cases.expected import AttentionWeights, Form, NearInNorm, WithinBounds, judge
from attnsuite.judging.precision import Bounded

FORM = Form((2, 3), torch.float64)
RIGHT = torch.arange(6.0).double().reshape(2, 3)
WITHIN = WithinBounds(FORM, Bounded(RIGHT.numpy(), np.full((2, 3), 0.1)), 2.0)
NEAR = NearInNorm(FORM, RIGHT.numpy(), np.full(2, 0.1))
ONES = Bounded(np.ones(2), np.full(2, 0.1))
WITH_GRADIENT = replace(WITHIN, form=replace(FORM, gradients={"x": (2,)}), gradients={"x": ONES})


def changed(place: tuple[int, ...], number: float) -> torch.Tensor:
    """The right numbers with one changed by so much."""
    tensor = RIGHT.clone()
    tensor[place] += number
    return tensor


@pytest.mark.parametrize(
    ("changes", "status", "message"),
    [
        ({"error": "ValueError: no", "output": None}, "error", "ValueError: no"),
        ({"output": None, "kind": "tuple"}, "failed", "returned tuple, should return a Tensor"),
        ({"output": None, "no_model": True}, "failed", "returned Tensor in place of a model, should return a callable"),
        ({"output": RIGHT.float()}, "failed", "output is float32, should be float64"),
        ({"output": RIGHT.mT}, "failed", "output has shape (3, 2), should have (2, 3)"),
        ({"changed": ("x",)}, "failed", "changed its input x"),
        ({"aliased": ("x", "y")}, "failed", "the output shares memory with x and y"),
        ({"overwritten": True}, "failed", "a later call changed this output"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("expected", [WITHIN, NEAR])
def test_the_form_is_judged_before_any_number(
    expected: Any, changes: dict[str, Any], status: str, message: str
) -> None:
    verdict = expected.verdict(replace(Reply(RIGHT), **changes))

    assert (verdict.status, verdict.detail, verdict.output_wrong) == (status, message, False)


@pytest.mark.parametrize(("error", "status"), [(0.0, "passed"), (0.19, "passed"), (0.21, "failed"), (np.nan, "failed")])
def test_an_element_may_be_off_by_the_accepted_bounds(error: float, status: str) -> None:
    verdict = WITHIN.verdict(Reply(changed((1, 2), error)))

    assert verdict.status == status
    assert verdict.output_wrong == (status == "failed")
    assert status == "passed" or verdict.detail.startswith("output[1, 2] is ")


@pytest.mark.parametrize(
    ("gradient", "message"),
    [
        (torch.tensor([1.0, 1.09]).double(), ""),
        (torch.tensor([1.0, 1.11]).double(), "gradient of x[1] is 1.11"),
        (None, "no gradient reached x"),
        (torch.ones(3).double(), "gradient of x has shape (3,), should have (2,)"),
    ],
)
def test_a_gradient_may_be_off_by_one_bound(gradient: torch.Tensor | None, message: str) -> None:
    verdict = WITH_GRADIENT.verdict(Reply(RIGHT, gradients={"x": gradient}))

    assert verdict.status == ("failed" if message else "passed")
    assert verdict.detail.startswith(message)


def test_rows_that_are_not_judged_must_be_finite() -> None:
    expected = replace(WITHIN, output=Bounded(RIGHT.numpy()[:1], np.full((1, 3), 0.1)), rows=np.array([0]))

    assert expected.verdict(Reply(changed((1, 0), 4.0))).status == "passed"
    infinite = expected.verdict(Reply(changed((1, 0), torch.inf)))
    assert infinite.detail == "output holds 1 numbers that are infinite or NaN"


@pytest.mark.parametrize("expected", [WITHIN, NEAR])
def test_equal_replies_are_alike_even_if_wrong(expected: Any) -> None:
    wrong, nan, other_nan = RIGHT + 5, changed((0,), torch.nan), changed((1,), torch.nan)

    assert expected.alike(Reply(wrong), Reply(wrong + 0.01))
    assert expected.alike(Reply(nan), Reply(nan))
    for other in (RIGHT, None, wrong[:1]):
        assert not expected.alike(Reply(wrong), Reply(other))
    assert not expected.alike(Reply(nan), Reply(other_nan))


def test_a_verdict_names_the_wrong_call_and_the_largest_error() -> None:
    off = RIGHT + 0.05

    passed = judge([WITHIN, WITHIN], [Reply(off), Reply(RIGHT)])
    wrong = judge([WITHIN, WITHIN], [Reply(RIGHT), Reply(off + 1)])

    assert (passed.status, passed.error_ratio) == ("passed", pytest.approx(0.25))
    assert wrong.detail.startswith("call 2 of 2: output[0, 0] is 1.05")
    assert judge([WITHIN], [Reply(off + 1)]).detail.startswith("output[0, 0]")


@pytest.mark.parametrize(
    ("actual", "exact", "status"),
    [
        ([torch.inf, 1.0], [69_000.0, 1.0], "passed"),  # float16 ends at 65,504
        ([torch.inf, 1.0], [65_000.0, 1.0], "passed"),  # within the bound of it
        ([torch.inf, 1.0], [60_000.0, 1.0], "failed"),
        ([-torch.inf, 1.0], [69_000.0, 1.0], "failed"),
        ([torch.nan, 1.0], [69_000.0, 1.0], "failed"),
        ([torch.inf, torch.inf], [69_000.0, 1.0], "failed"),
    ],
)
def test_a_number_beyond_the_range_of_the_dtype_may_be_infinite(
    actual: list[float], exact: list[float], status: str
) -> None:
    form, beyond = Form((2,), torch.float16, {"x": (2,)}), Bounded(np.array(exact), np.full(2, 600.0))
    numbers, ones = torch.tensor(actual).half(), torch.ones(2).half()
    in_output, in_gradient = (
        WithinBounds(form, output, gradients={"x": gradient}) for output, gradient in ((beyond, ONES), (ONES, beyond))
    )

    assert in_output.verdict(Reply(numbers, gradients={"x": ones})).status == status
    assert in_gradient.verdict(Reply(ones, gradients={"x": numbers})).status == status


def test_a_clear_failure_comes_before_a_marginal_one() -> None:
    close = Reply(changed((0, 0), 0.21))

    verdict = judge([WITHIN, WITHIN], [close, Reply(RIGHT + 5)])

    assert verdict.detail.startswith("call 2 of 2: output[0, 0] is 5")
    assert not verdict.marginal
    assert judge([WITHIN, WITHIN], [close, Reply(RIGHT)]).marginal


def test_a_clear_error_of_a_gradient_is_not_marginal_with_a_marginal_output() -> None:
    close, ones = changed((0, 0), 0.21), torch.ones(2).double()

    assert WITH_GRADIENT.verdict(Reply(close, gradients={"x": ones})).marginal
    assert not WITH_GRADIENT.verdict(Reply(close, gradients={"x": 0 * ones})).marginal


LSE = torch.tensor([0.5, -torch.inf]).double()
WITH_LSE = replace(
    WITHIN,
    attentions={
        "lse": AttentionWeights(
            WithinBounds(Form((2,), torch.float64), Bounded(LSE.numpy(), np.array([0.1, 0.0]))), None
        )
    },
)
"""An output, and a second one that is no attention weights."""


@pytest.mark.parametrize(
    ("second", "detail"),
    [
        ({"lse": LSE}, ""),
        ({}, "returned an output alone, should return the output and lse"),
        ({"lse": None}, "the lse is no tensor"),
        ({"lse": LSE.float()}, "lse is float32, should be float64"),
        ({"lse": LSE[:1]}, "lse has shape (1,), should have (2,)"),
        ({"lse": LSE + 1}, "lse[0] is 1.5, should be 0.5 within 0.1 (error 10 × the tolerance; 1 of 2 elements)"),
        ({"lse": LSE.clamp_min(-1e30)}, "lse[1] is -1e+30, should be -inf within 0"),
    ],
)
def test_a_second_output_is_judged_as_the_first(second: dict[str, Any], detail: str) -> None:
    verdict = WITH_LSE.verdict(Reply(RIGHT, attention_weights=second))

    assert (verdict.status == "passed") == (not detail)
    assert verdict.detail.startswith(detail)


def test_a_second_output_that_a_later_call_changed_fails() -> None:
    verdict = WITH_LSE.verdict(Reply(RIGHT, attention_weights={"lse": LSE}, weights_overwritten=("lse",)))

    assert verdict.detail == "a later call changed the lse"


def test_replies_with_different_second_outputs_are_not_alike() -> None:
    seconds = LSE, LSE.clone(), LSE + 1, LSE.clamp_min(-1e30)
    replies = [Reply(RIGHT, attention_weights={"lse": lse}) for lse in seconds]

    assert [WITH_LSE.alike(replies[0], other) for other in replies] == [True, True, False, False]
