"""Products of matrices in the arithmetic that judges."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

from attnsuite.cases.tensors import generator
from attnsuite.judging.precision import QUADRUPLE, product, widened

SHAPES = [((2, 3, 5, 7), (2, 3, 7, 4)), ((2, 3, 1, 7), (2, 3, 7, 4)), ((5, 7), (7, 1)), ((2, 1, 5, 7), (3, 7, 4))]
EMPTY = [((2, 5, 0), (2, 0, 4)), ((2, 0, 7), (2, 7, 4)), ((0, 5, 7), (0, 7, 4)), ((2, 5, 7), (2, 7, 0))]


@pytest.mark.parametrize("shapes", SHAPES + EMPTY)
@pytest.mark.parametrize("arithmetic", [np.float64, np.longdouble, np.object_])
def test_a_product_is_that_of_numpy(shapes: tuple[tuple[int, ...], ...], arithmetic: Any) -> None:
    one, other = (widened(generator(str(shape)).normal(size=shape), arithmetic) for shape in shapes)

    found, due = product(one, other), one @ other

    assert (found.shape, found.dtype) == (due.shape, due.dtype)
    close = abs(found - due) <= 16 * float(np.finfo(np.longdouble).eps) * (abs(one) @ abs(other))
    assert arithmetic is not np.longdouble or close.all()
    assert arithmetic is np.longdouble or (found == due).all()


def test_views_are_multiplied_as_they_are() -> None:
    one = widened(generator("views").normal(size=(4, 9, 6)), np.longdouble)

    found = product(one.swapaxes(-1, -2)[..., ::2, :], one)

    assert np.allclose((found - one.swapaxes(-1, -2)[..., ::2, :] @ one).astype(float), 0, atol=1e-17)


def test_extended_precision_is_kept_where_float64_would_lose_everything() -> None:
    """The sum 1 + ε − 1 of numbers that float64 holds: its own arithmetic gives 0 for an ε of 2⁻⁶⁰."""
    if np.finfo(np.longdouble).nmant <= 52:
        pytest.skip("longdouble is no wider than float64 here")
    one = widened(np.array([[1.0, 2.0**-60, -1.0], [1.0, 2.0**-62, -1.0]]), np.longdouble)
    ones = widened(np.ones((3, 2)), np.longdouble)

    assert product(one, ones)[:, 0].tolist() == [2.0**-60, 2.0**-62]


def test_sums_of_many_terms_are_right_to_far_less_than_a_unit_of_float64() -> None:
    """Against mpmath, in bounds of 2⁻⁸ units of Σ|a||b|: what honest float64 is allowed is many times that."""
    if np.finfo(np.longdouble).nmant <= 52:
        pytest.skip("longdouble is no wider than float64 here")
    random = generator("many terms")
    one, other = random.normal(size=(2, 700)), random.normal(size=(700, 2))

    found = product(widened(one, np.longdouble), widened(other, np.longdouble))

    for i, j in np.ndindex(2, 2):
        exact = QUADRUPLE.fsum(QUADRUPLE.mpf(a) * QUADRUPLE.mpf(b) for a, b in zip(one[i], other[:, j], strict=True))
        off = abs(QUADRUPLE.mpf(mpmath.nstr(QUADRUPLE.mpf(str(found[i, j])), 30)) - exact)
        assert off <= 2.0**-61 * float(abs(one[i]) @ abs(other[:, j]))
