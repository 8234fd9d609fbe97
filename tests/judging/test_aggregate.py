"""Errors taken together: limits that independent roundings never exceed, and complaints about larger ones."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnsuite.judging.aggregate import (
    AggregateLimits,
    Directions,
    ErrorVariance,
    eigenvalue_bound,
    half_ulp,
    inverse_noise_weights,
    rounding,
)
from attnsuite.judging.compare import numbers, together
from attnsuite.judging.precision import PRECISIONS

Array = np.ndarray[Any, Any]
SEEDS = st.integers(0, 2**32 - 1)
ROWS, WIDTH = 64, 16

unhurried = settings(deadline=None, max_examples=50)


def limits(*, row_weights: Array | None = None, **changes: Any) -> AggregateLimits:
    """Limits of 64 rows of 16 numbers, each with one error of variance 1/3 and one direction, the sum of all."""
    rows = np.ones(ROWS) if row_weights is None else row_weights
    total = WIDTH / 3
    deviation = np.array([np.sqrt(rows.sum() * total)])
    larger = Directions("larger numbers (number {})", lambda off: np.array([off.sum()]), deviation, np.zeros(1))
    fields: dict[str, Any] = {"bias": 0.0, "directions": (larger,)}
    return AggregateLimits(rows, (slice(None),), rows.sum() * total, total, **(fields | changes))


def roundings(seed: int) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, size=(ROWS, WIDTH))


@given(SEEDS)
@unhurried
def test_independent_roundings_stay_within_the_limits_also_where_rows_are_tied(seed: int) -> None:
    errors = roundings(seed)
    tied = errors[:, :1].repeat(WIDTH, axis=1)

    complaint, ratio = together(errors, np.zeros_like(errors), limits())

    assert complaint is None
    assert 0 < ratio < 1
    assert together(tied, np.zeros_like(tied), limits(directions=()))[0] is None
    assert together(errors, errors, limits()) == (None, 0.0)


@given(SEEDS)
@unhurried
def test_a_shift_below_one_rounding_shows_in_its_direction_and_large_errors_in_the_norm(seed: int) -> None:
    shifted, large = roundings(seed) + 0.5, 3 * roundings(seed)

    shift, ratio = together(shifted, np.zeros_like(shifted), limits(), name="gradient of key")
    norm, _ = together(large, np.zeros_like(large), limits(directions=()))

    assert ratio > 1
    assert shift is not None
    assert shift.startswith("gradient of key as a whole is off by ")
    assert "in the direction of larger numbers (number 0), 1" in shift
    assert norm is not None
    assert norm.startswith("output as a whole lies ")


def test_rows_that_do_not_count_or_are_not_finite_are_skipped() -> None:
    row_weights, errors = np.ones(ROWS), roundings(0)
    row_weights[3], errors[3], errors[5, 2] = 0, 1e6, np.nan

    complaint, ratio = together(errors, np.zeros_like(errors), limits(row_weights=row_weights))

    assert complaint is None
    assert ratio < 1


def test_two_outputs_may_differ_by_the_errors_of_both() -> None:
    single = limits(bias=3.0)
    both = single.between_two()

    assert both.norm == pytest.approx(2 * single.norm)
    assert both.reach(both.directions[0]) == pytest.approx(2 * single.reach(single.directions[0]))


def test_more_directions_have_wider_limits_each() -> None:
    single = limits()
    several = limits(directions=single.directions * 1000)

    assert single.exponent < several.exponent < single.exponent + 7
    assert several.reach(several.directions[0]) > single.reach(single.directions[0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@given(SEEDS)
@unhurried
def test_the_error_of_rounding_is_that_of_the_dtype(dtype: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    drawn = (random.normal(size=200) * 10.0 ** random.integers(-3, 4, size=200)).astype(np.float32)
    stored, exact = numbers(torch.from_numpy(drawn).to(getattr(torch, dtype))), drawn.astype(np.float64)

    error, variance = rounding(exact, PRECISIONS[dtype])

    np.testing.assert_allclose(error, stored - exact, atol=1e-12)
    assert (abs(error) <= half_ulp(exact, PRECISIONS[dtype])).all()
    assert (variance >= error**2).all()


def test_numbers_of_the_dtype_are_not_rounded() -> None:
    error, variance = rounding(np.array([0.0, 1.5, -0.25]), PRECISIONS["bfloat16"])

    assert not error.any()
    assert variance[0] < 1e-70
    assert variance[1] == pytest.approx(2.0**-16 / 3)


@given(SEEDS, st.integers(1, 20), st.integers(1, 20))
@unhurried
def test_no_direction_has_more_variance_than_their_error_variance(seed: int, count: int, width: int) -> None:
    random = np.random.default_rng(seed)
    variances, vectors = random.random((3, count)) ** 4, random.normal(size=(count, width))

    error_variance = ErrorVariance.of(variances, vectors)

    for row in range(3):
        covariance = (vectors.T * variances[row]) @ vectors
        assert error_variance.trace[row] == pytest.approx(np.trace(covariance))
        assert np.linalg.eigvalsh(covariance)[-1] <= error_variance.max_eigenvalue[row] * (1 + 1e-9)
    assert np.linalg.norm(vectors, 2) ** 2 <= eigenvalue_bound(vectors) * (1 + 1e-9)


def test_the_least_noisy_row_counts_most() -> None:
    assert inverse_noise_weights(np.array([2.0, 1.0, 4.0, np.inf])).tolist() == [0.5, 1.0, 0.25, 0.0]
