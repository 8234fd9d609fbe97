"""The bound of angles: float32 lies within it in every style, at any position."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from attnsuite.contracts.blocks.positional_encoding import oracle as positional_encoding
from attnsuite.judging.precision import PRECISIONS
from attnsuite.judging.running_error import WithError

FREQUENCIES: dict[str, Callable[[Tensor, int, float], Tensor]] = {
    "a negative power": lambda feature, width, base: base ** (-feature / width),
    "the inverse of a power": lambda feature, width, base: 1 / torch.tensor(base) ** (feature / width),
    "PyTorch's tutorial": lambda feature, width, base: torch.exp(feature * (-math.log(base) / width)),
    "a logarithm in float32": lambda feature, width, base: torch.exp(-feature / width * torch.tensor(base).log()),
    "powers of 2": lambda feature, width, base: torch.exp2(feature * (-torch.tensor(base).log2() / width)),
}


@pytest.mark.parametrize("style", FREQUENCIES)
@pytest.mark.parametrize("width", [8, 500, 512])
@pytest.mark.parametrize("base", [500.0, 10_000.0, 1e6])
def test_float32_lies_within_the_bound_in_every_style(style: str, width: int, base: float) -> None:
    offset = 100_003
    expected = positional_encoding(
        WithError.exact(np.zeros((1, 3, width)), PRECISIONS["float32"]), offset=offset, base=base
    ).bounded

    feature = torch.arange(0, width, 2, dtype=torch.float32)
    positions = torch.arange(offset, offset + 3, dtype=torch.float32)[:, None]
    angles = positions * FREQUENCIES[style](feature, width, base)
    actual = torch.stack([angles.sin(), angles.cos()], -1).flatten(1).double().numpy()

    assert (abs(actual - expected.value[0]) <= expected.bound[0]).all()
