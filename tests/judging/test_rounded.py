"""Bounds of the arithmetic that knows its own errors hold for honest orders, and say something."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from suite.asking.tensors import generator
from suite.judging.precision import PRECISIONS, widest
from suite.judging.rounded import Rounded


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_exponential_of_a_log_softmax_is_honest(dtype: str) -> None:
    """It rounds twice at the size of the logarithm, where a softmax that divides rounds once."""
    drawn = torch.from_numpy(generator("log softmax").normal(size=(2000, 7)) * 15).to(getattr(torch, dtype))
    truth = Rounded.exact(drawn.double().numpy(), PRECISIONS[dtype], widest(dtype)).softmax()

    ratio = abs(torch.log_softmax(drawn, -1).exp().double().numpy() - truth.value) / truth.bound

    assert 0.4 < float(ratio.max()) <= 1.0


def test_a_score_that_is_rounded_to_half_is_not() -> None:
    drawn = generator("log softmax").normal(size=(50, 7)) * 15
    truth = Rounded.exact(drawn, PRECISIONS["float32"]).softmax()

    mistaken = torch.from_numpy(drawn).half().double().softmax(-1).numpy()

    assert np.median((abs(mistaken - truth.value) / truth.bound).max(-1)) > 100
