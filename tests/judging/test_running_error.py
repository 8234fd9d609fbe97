"""Bounds of the arithmetic that knows its own errors hold for honest orders, and say something."""

import numpy as np
import pytest
import torch

from attnsuite.cases.tensors import generator
from attnsuite.judging.precision import PRECISIONS, widest
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
