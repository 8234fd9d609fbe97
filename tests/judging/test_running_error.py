"""Bounds of the arithmetic that knows its own errors hold for honest orders, and say something."""

from typing import Any

import mpmath
import numpy as np
import pytest
import torch

from attnsuite.cases.tensors import generator
from attnsuite.judging.precision import PRECISIONS, QUADRUPLE, product, widened, widest
from attnsuite.judging.running_error import WithError


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_exponential_of_a_log_softmax_is_honest(dtype: str) -> None:
    """It rounds twice at the size of the logarithm, where a softmax that divides rounds once."""
    drawn = torch.from_numpy(generator("log softmax").normal(size=(2000, 7)) * 15).to(getattr(torch, dtype))
    truth = WithError.exact(drawn.double().numpy(), PRECISIONS[dtype], widest(dtype)).softmax()

    ratio = abs(torch.log_softmax(drawn, -1).exp().double().numpy() - truth.value) / truth.bound

    assert 0.4 < float(ratio.max()) <= 1.0


def test_a_score_that_is_rounded_to_half_is_not() -> None:
    drawn = generator("log softmax").normal(size=(50, 7)) * 15
    truth = WithError.exact(drawn, PRECISIONS["float32"]).softmax()

    mistaken = torch.from_numpy(drawn).half().double().softmax(-1).numpy()

    assert np.median((abs(mistaken - truth.value) / truth.bound).max(-1)) > 100


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_logarithm_is_bounded_by_what_its_number_may_be_off_by(dtype: str) -> None:
    drawn = torch.from_numpy(generator("logarithm").uniform(1e-3, 3.0, size=(2, 2000))).to(getattr(torch, dtype))
    top, bottom = (WithError.exact(each.double().numpy(), PRECISIONS[dtype], widest(dtype)) for each in drawn)
    truth = (top / bottom).log()

    ratio = abs((drawn[0] / drawn[1]).log().double().numpy() - truth.value) / truth.bound

    assert 0.3 < float(ratio.max()) <= 1.0


def test_the_logarithm_of_what_may_be_zero_has_no_bound() -> None:
    number = WithError(np.array([1e-9, 1.0]), np.array([1e-8, 0.0]), PRECISIONS["float32"])

    assert np.isinf(number.log().bound[0])
    assert number.log().bound[1] < 1e-30


SHAPES = [((2, 3, 5, 7), (2, 3, 7, 4)), ((2, 3, 1, 7), (2, 3, 7, 4)), ((5, 7), (7, 1)), ((2, 1, 5, 7), (3, 7, 4))]
EMPTY = [((2, 5, 0), (2, 0, 4)), ((2, 0, 7), (2, 7, 4)), ((0, 5, 7), (0, 7, 4)), ((2, 5, 7), (2, 7, 0))]
needs_wide = pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="longdouble is no wider than float64 here")


@pytest.mark.parametrize("shapes", SHAPES + EMPTY)
@pytest.mark.parametrize("arithmetic", [np.float64, np.longdouble, np.object_])
def test_a_product_is_that_of_numpy(shapes: tuple[tuple[int, ...], ...], arithmetic: Any) -> None:
    left, right = (widened(generator(str(shape)).normal(size=shape), arithmetic) for shape in shapes)

    actual, expected = product(left, right), left @ right

    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    units = 16 if arithmetic is np.longdouble else 0
    assert (abs(actual - expected) <= units * float(np.finfo(np.longdouble).eps) * (abs(left) @ abs(right))).all()


def test_views_are_multiplied_as_they_are() -> None:
    numbers = widened(generator("views").normal(size=(4, 9, 6)), np.longdouble)
    view = numbers.swapaxes(-1, -2)[..., ::2, :]

    assert np.allclose((product(view, numbers) - view @ numbers).astype(float), 0, atol=1e-17)


@needs_wide
def test_extended_precision_survives_where_float64_loses_everything() -> None:
    """The sum 1 + ε − 1 is 0 in float64 for an ε of 2⁻⁶⁰."""
    terms = widened(np.array([[1.0, 2.0**-60, -1.0], [1.0, 2.0**-62, -1.0]]), np.longdouble)

    assert product(terms, widened(np.ones((3, 2)), np.longdouble))[:, 0].tolist() == [2.0**-60, 2.0**-62]


@needs_wide
def test_sums_of_many_terms_are_right_to_far_less_than_a_unit_of_float64() -> None:
    random = generator("many terms")
    left, right = random.normal(size=(2, 700)), random.normal(size=(700, 2))

    actual = product(widened(left, np.longdouble), widened(right, np.longdouble))

    for i, j in np.ndindex(2, 2):
        terms = zip(left[i], right[:, j], strict=True)
        exact = QUADRUPLE.fsum(QUADRUPLE.mpf(a) * QUADRUPLE.mpf(b) for a, b in terms)
        error = abs(QUADRUPLE.mpf(mpmath.nstr(QUADRUPLE.mpf(str(actual[i, j])), 30)) - exact)
        assert error <= 2.0**-61 * float(abs(left[i]) @ abs(right[:, j]))
