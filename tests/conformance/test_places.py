"""Which elements are wrong is reported only where all results show one pattern along an axis."""

from __future__ import annotations

import numpy as np
import pytest

from attnsuite.conformance.places import Wrong, wrong_places

ITEMS, HEADS, ROWS, COLUMNS = range(4)


def wrong(shape: tuple[int, ...], axis: int, part: slice | list[int], number: float = 5.0) -> Wrong:
    """A result whose elements in a part of one axis are wrong, and have this number."""
    places = np.zeros(shape, dtype=bool)
    np.moveaxis(places, axis, 0)[part] = True
    return {"output": (places, np.where(places, number, 1.0), np.arange(places.size).reshape(shape) % 7 - 2.0)}


def gradients(factor: float, *wrong: str) -> Wrong:
    """A result whose output is right, and whose named gradients are a multiple of the expected ones."""
    expected = np.arange(1.0, 7.0).reshape(2, 3)
    factors = {"output": 1.0} | {f"gradient of {name}": factor if name in wrong else 1.0 for name in ("query", "key")}
    return {name: (np.full((2, 3), times != 1), times * expected, expected) for name, times in factors.items()}


@pytest.mark.parametrize(
    ("results", "says"),
    [
        ([wrong((n, 2, 3, 4), ITEMS, slice(1, None, 2), 0.0) for n in (2, 5)],
            "every second item of the output is wrong, and 0"),
        ([wrong((2, 2, 3, 4), ITEMS, [1])] * 2, "the second item (of two) of the output is wrong"),
        ([wrong((2, n, 3, 4), HEADS, [n - 1]) for n in (2, 3)], "the last head of the output is wrong"),
        ([wrong((2, 2, n, 4), ROWS, slice(2, None), np.nan) for n in (4, 7)],
            "each row from number 3 on of the output is wrong, and NaN"),
        ([wrong((2, 4, 4), 0, [1])] * 2, "the second matrix (of two) of the output is wrong"),
        ([wrong((n, 4, 4), 0, [0]) for n in (3, 4)], "matrix number 1 of the output is wrong"),
        ([wrong((n, 8), 1, slice(4, 8)) for n in (3, 4)], "each column from number 5 on of the output is wrong"),
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
