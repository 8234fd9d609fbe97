"""The comparator: what passes, what never does, and what the complaint says."""

from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import attnsuite
from attnsuite.judging.compare import difference, error_ratio, errors, marginal, numbers

Array = np.ndarray[Any, Any]

NAN, INF = float("nan"), float("inf")
SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
FINITE = st.floats(-1e6, 1e6)
NEAR_ONE = 2.0**-60
WIDE = [np.longdouble, object] if np.finfo(np.longdouble).nmant > 60 else [object]

unhurried = settings(deadline=None)  # the machine may be busy


def array(*values: Any, of: Any = np.float64) -> Array:
    """Numbers in an arithmetic of the oracle: objects of mpmath where longdouble is no wider than float64."""
    if of is not object:
        return np.array(values, dtype=of)
    context = mpmath.MPContext()
    context.prec = 113
    return np.array([context.mpf(value) for value in values], dtype=object)


@st.composite
def compared(draw: st.DrawFn) -> tuple[Array, Array, Array]:
    """Actual and expected numbers, and positive bounds, of one shape."""
    shape = draw(SHAPES)
    actual, expected = (draw(arrays.arrays(np.float64, shape, elements=FINITE)) for _ in range(2))
    return actual, expected, draw(arrays.arrays(np.float64, shape, elements=st.floats(1e-9, 1e6)))


@pytest.mark.parametrize(
    ("actual", "expected", "bound", "ratio"),
    [
        (1.0, 1.0, 0.0, 0.0),
        (0.0, -0.0, 0.0, 0.0),
        (1.5, 1.0, 0.5, 1.0),
        (0.0, 1.0, 0.5, 2.0),
        (5e-324, 0.0, 0.0, INF),
        (1.0 + 2**-52, 1.0, 0.0, INF),
        (NAN, NAN, 0.0, 0.0),
        (NAN, NAN, 1.0, 0.0),
        (NAN, 1.0, 1.0, INF),
        (NAN, 1.0, INF, INF),
        (NAN, 1.0, NAN, INF),
        (NAN, INF, INF, INF),
        (1.0, NAN, 1.0, INF),
        (INF, NAN, INF, INF),
        (INF, INF, 0.0, 0.0),
        (INF, -INF, 1.0, INF),
        (INF, 1.0, 1e300, INF),
        (INF, 1.0, INF, INF),
        (1.0, INF, 1.0, INF),
        (2.0, 1.0, NAN, INF),
        (1.0, 1.0, NAN, 0.0),
        (2.0, 1.0, -1.0, INF),
    ],
)
@pytest.mark.parametrize("of", [np.float64, np.longdouble, object])
def test_an_error_is_a_distance_in_units_of_the_bound(
    actual: float, expected: float, bound: float, ratio: float, of: type
) -> None:
    exact = array(expected, of=of)

    assert errors(array(actual), exact, array(bound)) == ratio
    assert (difference(array(actual), exact, array(bound)) is None) == (ratio <= 1)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0, 4), (2, 3, 0)])
@pytest.mark.parametrize("of", [np.float64, object])
def test_empty_arrays_of_equal_shape_pass(shape: tuple[int, ...], of: type) -> None:
    empty = np.zeros(shape)

    assert difference(empty, empty.astype(of), empty) is None
    assert error_ratio(empty, empty.astype(of), empty) == 0


@pytest.mark.parametrize(
    ("shape", "other"), [*(((3,), s) for s in [(3, 1), (1, 3), (1,), (), (3, 3)]), ((0, 4), (0, 3))]
)
def test_a_shape_that_would_broadcast_or_is_empty_is_still_another_shape(
    shape: tuple[int, ...], other: tuple[int, ...]
) -> None:
    complaint = difference(np.ones(other), np.ones(shape), np.ones(shape), name="gradient of key")

    assert complaint == f"gradient of key has shape {other}, should have {shape}"


@pytest.mark.parametrize("of", WIDE)
def test_differences_below_float64_are_seen(of: type) -> None:
    expected = array(1, of=of) + NEAR_ONE

    assert error_ratio(array(1.0), expected, array(NEAR_ONE / 4)) == 4
    assert difference(array(1.0), expected, array(0.0)) is not None


def test_a_number_beyond_float64_is_never_right() -> None:
    assert errors(array(1e308, INF), array("1e400", "1e400", of=object), array(1e308, 1e308)).tolist() == [INF, INF]


@pytest.mark.parametrize(
    ("actual", "expected", "bound", "changes", "complaint"),
    [
        (np.array(2.0), np.array(array(2, of=object)[0], dtype=object), np.array(0.0), {}, None),
        (
            np.array(1.0), np.array(array(2, of=object)[0], dtype=object), np.array(0.1), {},
            "output is 1, should be 2 within 0.1 (error 10 × the tolerance; 1 of 1 elements)",
        ),
        (
            np.array([[0.0, -0.684341], [0.0, 3e-6]]), np.array([[0.0, -0.684652], [0.0, 0.0]]),
            np.array([[1e-6, 2e-7], [1e-6, 1e-6]]), {},
            "output[0, 1] is -0.684341, should be -0.684652 within 2e-07 "
            "(error 1.6e+03 × the tolerance; 2 of 4 elements)",
        ),
        (  # the worst element is the farthest in bounds, not in distance
            array(1.0, 100.0), array(0.0, 0.0), array(0.001, 50.0), {},
            "output[0] is 1, should be 0 within 0.001 (error 1e+03 × the tolerance; 2 of 2 elements)",
        ),
        (
            array(1.0), array(0.0), array(0.1), {"name": "gradient of value", "accept": 2.0},
            "gradient of value[0] is 1, should be 0 within 0.2 (error 5 × the tolerance; 1 of 1 elements)",
        ),
        (
            array(1e9, NAN, 3.0), array(0.0, 2.0, 3.0), np.full(3, 1e-9), {},
            "output[1] is nan, should be 2 within 1e-09 (error inf × the tolerance; 2 of 3 elements)",
        ),
        (
            array(0.0), array(NAN), array(0.0), {},
            "output[0] is 0, should be nan within 0 (error inf × the tolerance; 1 of 1 elements)",
        ),
    ],
)  # fmt: skip
def test_the_complaint_names_the_worst_element_with_actual_expected_and_bound(
    actual: Array, expected: Array, bound: Array, changes: dict[str, Any], complaint: str | None
) -> None:
    assert difference(actual, expected, bound, **changes) == complaint


@unhurried
@given(compared(), st.data())
def test_a_complaint_is_made_exactly_when_an_element_exceeds_its_bound(
    triple: tuple[Array, Array, Array], data: st.DataObject
) -> None:
    actual, expected, bound = triple
    ratio = error_ratio(actual, expected, bound)

    exceeds = bool((abs(actual - expected) / bound > 1).any())

    assert (difference(actual, expected, bound) is not None) == (ratio > 1) == exceeds
    assert (errors(actual, expected, bound) == errors(expected, actual, bound)).all()
    assert difference(actual, expected, bound, accept=ratio) is None
    if ratio:
        assert difference(actual, expected, bound, accept=float(np.nextafter(ratio, 0))) is not None
    if actual.size:
        actual.flat[data.draw(st.integers(0, actual.size - 1))] = NAN
        assert difference(actual, expected, np.full_like(bound, INF), accept=1e300) is not None


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_tensors_become_float64_without_loss(dtype: torch.dtype) -> None:
    tensor = torch.tensor([1 / 3, -torch.finfo(dtype).max, torch.finfo(dtype).tiny, INF, NAN], dtype=dtype)

    read = numbers(tensor.requires_grad_())

    assert read.dtype == np.float64
    assert torch.equal(torch.from_numpy(read)[:4].to(dtype), tensor.detach()[:4])
    assert np.isnan(read[4])


def test_no_other_module_compares_tensors() -> None:
    sources = [file for file in Path(attnsuite.__file__).parent.rglob("*.py") if file.name != "compare.py"]

    assert [file.name for file in sources if "allclose" in file.read_text(encoding="utf-8")] == []
    assert len(sources) > 20


@pytest.mark.parametrize(
    ("ratios", "accept", "expected"),
    [
        ([0.9, 1.0], 1.0, False),  # nothing exceeds the tolerance
        ([1.1, 0.2], 1.0, True),
        ([4.9, 0.2], 1.0, True),
        ([5.1, 0.2], 1.0, False),
        ([1.9, 0.2], 2.0, False),
        ([2.1, 0.2], 2.0, True),
        ([INF, 0.2], 1.0, False),
        ([1.1] * 4 + [0.1], 1.0, True),
        ([1.1] * 5 + [0.1], 1.0, False),
        ([1.1] * 10 + [0.1] * 990, 1.0, True),
        ([1.1] * 11 + [0.1] * 989, 1.0, False),
    ],
)
def test_an_excess_is_marginal_if_it_is_small_and_in_few_elements(
    ratios: list[float], accept: float, expected: bool
) -> None:
    assert marginal(array(*ratios), accept) is expected
