"""Tests of `attnsuite.model.quantiles` against SciPy's quantiles."""

from __future__ import annotations

import pytest
from scipy.special import stdtrit

from attnsuite.model.quantiles import student


@pytest.mark.parametrize("freedom", [1, 2, 3, 8, 20, 300, 30_000])
@pytest.mark.parametrize("tail", [0.5, 0.4, 0.1, 5e-3, 1e-4, 1e-9])
def test_a_quantile_of_student_s_distribution_is_scipy_s(freedom: int, tail: float) -> None:
    assert student(freedom, tail) == pytest.approx(-stdtrit(freedom, tail), rel=1e-10, abs=1e-12)


def test_student_s_distribution_with_one_degree_of_freedom_is_cauchy_s() -> None:
    assert student(1, 0.25) == pytest.approx(1.0)
    assert student(1, 0.01) == pytest.approx(31.8205159538)
