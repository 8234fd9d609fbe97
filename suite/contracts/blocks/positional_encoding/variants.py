"""Correct positional encodings in foreign styles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import Variant
from attnsuite.cases.computations import in_numpy, widened
from attnsuite.contracts.blocks.positional_encoding.mutants import Encoding

Array = np.ndarray[Any, Any]


def _exponentials(x: Tensor, *, offset: int = 0, base: float = 10000.0) -> Tensor:
    """Rates exp(−ln(base) · 2j/e) in float32 for half types, and two strided assignments."""
    _, length, width = x.shape
    rates = torch.exp(torch.arange(0, width, 2, dtype=x.dtype) * (-math.log(base) / width))
    angles = torch.outer(torch.arange(offset, offset + length, dtype=x.dtype), rates)
    encoding = torch.empty(length, width, dtype=x.dtype)
    encoding[:, 0::2], encoding[:, 1::2] = angles.sin(), angles.cos()[:, : width // 2]
    return x + encoding


def _table(x: Tensor, *, offset: int = 0, base: float = 10000.0) -> Tensor:
    """A table in float64 that is rounded to the dtype before it is added."""
    table = _exponentials(torch.zeros(1, *x.shape[1:], dtype=torch.float64), offset=offset, base=base)
    return x + table.to(x.dtype)


def _turned(x: Array, *, offset: int = 0, base: float = 10000.0) -> Array:
    """Sine and cosine are a point on the unit circle, the cosine a sine a quarter of a turn further."""
    columns = np.arange(x.shape[2])
    positions = np.arange(offset, offset + x.shape[1])[:, None]
    points = np.exp(1j * positions * float(base) ** (-(columns - columns % 2) / x.shape[2]))
    return np.asarray(x + np.where(columns % 2, points.real, points.imag))


def variants() -> list[Variant]:
    """One formula, many ways to the angles."""
    return [
        Variant("exponentials", "rates as exponentials of logarithms", widened(Encoding, _exponentials)),
        Variant("table", "a table in float64, rounded before it is added", Encoding.checked(_table)),
        Variant("turned", "points on the unit circle, numpy in float64", in_numpy(Encoding, _turned)),
    ]
