"""Which elements are wrong is reported only where all results show one pattern along an axis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from attnsuite.cases.expected import WrongElements
from attnsuite.conformance.places import Wrong, wrong_places
from attnsuite.judging.compare import Array

ITEMS, HEADS, ROWS, COLUMNS = range(4)


def wrong(shape: tuple[int, ...], axis: int, part: slice | list[int], number: float = 5.0) -> Wrong:
    """A result whose elements in a part of one axis are wrong, and have this number."""
    places = np.zeros(shape, dtype=bool)
    np.moveaxis(places, axis, 0)[part] = True
    expected = np.arange(places.size).reshape(shape) % 7 - 2.0
    return {"output": WrongElements(places, np.where(places, number, 1.0), expected, np.zeros(shape))}


def gradients(factor: float, *wrong: str) -> Wrong:
    """A result whose output is right, and whose named gradients are a multiple of the expected ones."""
    expected = np.arange(1.0, 7.0).reshape(2, 3)
    factors = {"output": 1.0} | {f"gradient of {name}": factor if name in wrong else 1.0 for name in ("query", "key")}
    return {
        name: WrongElements(np.full((2, 3), times != 1), times * expected, expected, np.zeros((2, 3)))
        for name, times in factors.items()
    }


@pytest.mark.parametrize(
    ("results", "says"),
    [
        ([wrong((n, 2, 3, 4), ITEMS, slice(1, None, 2), 0.0) for n in (2, 5)],
            "every second item of the output is wrong, and 0"),
        ([wrong((2, 2, 3, 4), ITEMS, [1])] * 2, "the second item (of two) of the output is wrong"),
        ([wrong((2, n, 3, 4), HEADS, [n - 1]) for n in (2, 3)], "the last head of the output is wrong"),
        ([wrong((2, 2, n, 4), ROWS, slice(2, None), np.nan) for n in (4, 7)],
            "rows from number 3 on of the output are wrong, and NaN"),
        ([wrong((2, 4, 4), 0, [1])] * 2, "the second matrix (of two) of the output is wrong"),
        ([wrong((n, 4, 4), 0, [0]) for n in (3, 4)], "matrix number 1 of the output is wrong"),
        ([wrong((n, 8), 1, slice(4, 8)) for n in (3, 4)], "columns from number 5 on of the output are wrong"),
        ([wrong((1, n, 3, 4), HEADS, [n - 1]) for n in (1, 3, 4)], "the last head of the output is wrong"),
        ([gradients(2.0, own) | wrong((2, n), 0, [1], 0.0) for own, n in (("key", 3), ("query", 4))],
            "the second row (of two) of the output is wrong, and 0"),
        ([gradients(2.0, "key")] * 2, "the gradient of key is wrong, and 2 × the expected"),
        ([gradients(-1.0, "key")] * 2, "the gradient of key is wrong, and the expected with the other sign"),
        ([gradients(n, "query") for n in (2.0, 3.0)],
            "the gradient of query is wrong, "
            "and a multiple of the expected, by a factor that varies from test to test"),
    ],
)  # fmt: skip
def test_a_pattern_that_all_results_show(results: list[Wrong], says: str) -> None:
    assert wrong_places(results) == f"only {says}"


def off(
    shape: tuple[int, ...], errors: Callable[[Array], Array], name: str = "output", tolerance: float = 0.0
) -> Wrong:
    """A result with errors everywhere, as large as this function of the expected numbers says."""
    expected = np.random.default_rng(len(shape)).normal(size=shape)
    actual = expected + errors(expected)
    right = WrongElements(np.zeros(shape, dtype=bool), expected, expected, np.zeros(shape))
    wrong = WrongElements(np.ones(shape, dtype=bool), actual, expected, np.full(shape, tolerance))
    return {"output": right, name: wrong}


def by_row(expected: Array) -> Array:
    """Errors of rows that are multiplied by 2, 3, …."""
    return np.arange(1.0, len(expected) + 1)[:, None] * expected


@pytest.mark.parametrize(
    ("results", "says"),
    [
        ([off((5, 8), lambda x: 1e-3 * np.sign(x) * abs(x).max())] * 3, "the output is wrong, and by no more than "
            "roundings to bfloat16"),
        ([off((5, 8), lambda x: 1e-4 * np.sign(x) * abs(x).max())] * 3, "the output is wrong, and by no more than "
            "roundings to float16"),
        ([off((5, 8), lambda x: 1e-2 * np.sign(x) * abs(x).max())] * 3, ""),
        ([off((5, 8), lambda x: 1e-4 * np.sign(x)), off((5, 8), np.ones_like)], ""),
        ([off((n, 8), by_row) for n in (3, 5)], "the output is wrong, and each row a multiple of the expected, by its "
            "own factor"),
        ([off((n, 1), by_row) for n in (3, 5)], ""),
        ([off((3, 8), by_row), off((3, 8), np.ones_like)], ""),
        ([off((3, 8), lambda x: by_row(x) + 0.1 * np.sign(x), tolerance=0.1)] * 2, "the output is wrong, and each row "
            "a multiple of the expected, by its own factor"),
        ([off((n, 3), lambda x: np.full_like(x, np.inf), "lse") for n in (2, 4)], "only the lse is wrong, and inf"),
        ([off((4,), np.ones_like, "lse"), off((4, 2), np.ones_like, "gradient of key")], ""),
        ([off((n, 8), by_row) for n in (3, 5)] + [off((n, 3), np.ones_like, "lse") for n in (2, 4)], "the output is "
            "wrong, and each row a multiple of the expected, by its own factor"),
        ([wrong((2, 5, 3, 4), HEADS, heads) for heads in ([1, 2], [1], [1, 4], [2, 3], [1, 3])], "only some heads "
            "from number 2 on of the output are wrong"),
        ([wrong((2, n, 3, 4), HEADS, [n - 1]) for n in (5, 4)] + [wrong((3, 3, 4), 0, [2])], "only the last head of "
            "the output is wrong"),
        ([off((n, 8), by_row) for n in (3, 5)] + [off((4, 2), np.ones_like, "gradient of key")], "the output is "
            "wrong, and each row a multiple of the expected, by its own factor"),
        ([off((5, 8), lambda x, n=n: (0.5 + n) * x) for n in (0.001, -0.001)], "the output is wrong, and 1.5 × the "
            "expected"),
        ([wrong((2, 5, 3, 4), HEADS, heads) for heads in ([1, 2], [1, 4], [2, 3], [1, 3])], ""),
    ],
)  # fmt: skip
def test_what_wrong_numbers_have_in_common(results: list[Wrong], says: str) -> None:
    assert wrong_places(results) == says


@pytest.mark.parametrize(("actual", "expected"), [(0.5, -np.inf), (np.inf, 1e-300), (np.nan, 1.0), (1e300, 1e-300)])
def test_numbers_beyond_the_range_give_no_warning(actual: float, expected: float) -> None:
    numbers = np.array([[actual, 1.0, 2.0], [3.0, 4.0, 5.0]])
    wanted = np.array([[expected, 2.0, 7.0], [0.0, 1.0, 9.0]])
    with np.errstate(all="raise"):
        result = WrongElements(np.ones((2, 3), dtype=bool), numbers, wanted, np.zeros((2, 3)))
        assert wrong_places([{"output": result}] * 2) == ""


def test_the_gradients_of_other_inputs_in_some_results_are_counted() -> None:
    results = [gradients(2.0, "query", "key"), gradients(2.0, "key")]
    says = "only gradients are wrong: that of key in 2 of 2 (2 × the expected), that of query in 1 of 2"
    assert wrong_places(results) == says


@pytest.mark.parametrize(
    "results",
    [
        pytest.param([wrong((2, 2, 3, 4), ITEMS, [1])], id="one result"),
        pytest.param([wrong((2, 2, 3, 4), ITEMS, slice(None))] * 2, id="all elements"),
        pytest.param([wrong((1, 1, 1, 1), ITEMS, [0])] * 2, id="a single element"),
        pytest.param([wrong((5, 2, 3, 4), ITEMS, [1]), wrong((5, 2, 3, 4), ITEMS, [3])], id="other items"),
        pytest.param([wrong((2, 3), 0, [1]), gradients(2.0, "key")], id="other tensors"),
        pytest.param([], id="unknown"),
        pytest.param([wrong((3, 2, 3, 4), ITEMS, [1])] * 2, id="the second of three, or every second"),
    ],
)  # fmt: skip
def test_no_sentence_without_a_pattern(results: list[Wrong]) -> None:
    assert wrong_places(results) == ""
