"""Errors taken together: what independent roundings never reach, and what is said of what goes beyond them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnsuite.judging.compare import numbers, together
from attnsuite.judging.precision import PRECISIONS
from attnsuite.judging.whole import Directions, Scatter, Whole, counted, rounding, step, top

Array = np.ndarray[Any, Any]
SEEDS = st.integers(0, 2**32 - 1)
ROWS, WIDTH = 64, 16

unhurried = settings(deadline=None, max_examples=50)


def judged(*, counts: Array | None = None, **changes: Any) -> Whole:
    """Limits of 64 rows of 16 numbers, each with one error of variance 1/3 and one direction, the sum of all."""
    rows = np.ones(ROWS) if counts is None else counts
    total = WIDTH / 3
    summed = Directions(
        "larger numbers (number {})",
        lambda off: np.array([off.sum()]),
        np.array([np.sqrt(rows.sum() * total)]),
        np.zeros(1),
    )
    limits: dict[str, Any] = {"drift": 0.0, "directions": (summed,)}
    return Whole(rows, (slice(None),), rows.sum() * total, total, **(limits | changes))


def roundings(seed: int) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, size=(ROWS, WIDTH))


@given(SEEDS)
@unhurried
def test_independent_roundings_stay_within_the_limits(seed: int) -> None:
    errors = roundings(seed)

    complaint, ratio = together(errors, np.zeros_like(errors), judged())

    assert complaint is None
    assert 0 < ratio < 1


@given(SEEDS)
@unhurried
def test_rows_whose_errors_are_tied_stay_within_the_limits_of_the_norm(seed: int) -> None:
    tied = roundings(seed)[:, :1].repeat(WIDTH, axis=1)

    complaint, _ = together(tied, np.zeros_like(tied), judged(directions=()))

    assert complaint is None


@given(SEEDS)
@unhurried
def test_a_shift_of_less_than_a_rounding_shows_in_the_direction_in_which_it_goes(seed: int) -> None:
    shifted = roundings(seed) + 0.5

    complaint, ratio = together(shifted, np.zeros_like(shifted), judged(), name="gradient of key")

    assert ratio > 1
    assert complaint is not None
    assert complaint.startswith("gradient of key as a whole is off by ")
    assert "in the direction of larger numbers (number 0), 1" in complaint
    assert complaint.endswith(" allowed")


@given(SEEDS)
@unhurried
def test_errors_three_times_as_large_show_in_the_norm(seed: int) -> None:
    large = 3 * roundings(seed)

    complaint, _ = together(large, np.zeros_like(large), judged(directions=()))

    assert complaint is not None
    assert complaint.startswith("output as a whole lies ")
    assert "from where it should be" in complaint


def test_nothing_is_said_of_rows_that_do_not_count_or_hold_no_number() -> None:
    counts = np.ones(ROWS)
    counts[3] = 0
    errors = roundings(0)
    errors[3], errors[5, 2] = 1e6, np.nan

    complaint, ratio = together(errors, np.zeros_like(errors), judged(counts=counts))

    assert complaint is None
    assert ratio < 1


def test_no_error_at_all_is_a_ratio_of_0() -> None:
    right = roundings(1)

    assert together(right, right, judged()) == (None, 0.0)


def test_two_answers_may_differ_by_what_both_may_be_off() -> None:
    one = judged(drift=3.0)

    both = one.between_two()

    assert both.norm == pytest.approx(2 * one.norm)
    assert both.reach(both.directions[0]) == pytest.approx(2 * one.reach(one.directions[0]))


def test_more_directions_have_wider_limits_each() -> None:
    one = judged()
    several = judged(directions=one.directions * 1000)

    assert one.exponent < several.exponent < one.exponent + 7
    assert several.reach(several.directions[0]) > one.reach(one.directions[0])


# Roundings


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@given(SEEDS)
@unhurried
def test_the_error_of_rounding_is_that_of_the_dtype(dtype: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    drawn = (random.normal(size=200) * 10.0 ** random.integers(-3, 4, size=200)).astype(np.float32)
    stored, exact = numbers(torch.from_numpy(drawn).to(getattr(torch, dtype))), drawn.astype(np.float64)

    error, variance = rounding(exact, PRECISIONS[dtype])

    np.testing.assert_allclose(error, stored - exact, atol=1e-12)
    assert (abs(error) <= step(exact, PRECISIONS[dtype])).all()
    assert (variance >= error**2).all()


def test_what_is_0_or_a_number_of_the_dtype_is_not_rounded() -> None:
    error, variance = rounding(np.array([0.0, 1.5, -0.25]), PRECISIONS["bfloat16"])

    assert not error.any()
    assert variance[0] < 1e-70
    assert variance[1] == pytest.approx(2.0**-16 / 3)


# Scatter


@given(SEEDS, st.integers(1, 20), st.integers(1, 20))
@unhurried
def test_no_direction_has_more_variance_than_is_said(seed: int, count: int, width: int) -> None:
    random = np.random.default_rng(seed)
    variances, vectors = random.random((3, count)) ** 4, random.normal(size=(count, width))

    scatter = Scatter.of(variances, vectors)

    for row in range(3):
        covariance = (vectors.T * variances[row]) @ vectors
        assert scatter.total[row] == pytest.approx(np.trace(covariance))
        assert np.linalg.eigvalsh(covariance)[-1] <= scatter.any_way[row] * (1 + 1e-9)
    assert np.linalg.norm(vectors, 2) ** 2 <= top(vectors) * (1 + 1e-9)


def test_the_least_noisy_row_counts_most() -> None:
    assert counted(np.array([2.0, 1.0, 4.0, np.inf])).tolist() == [0.5, 1.0, 0.25, 0.0]
