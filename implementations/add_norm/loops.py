"""The residual connection one number at a time, in Python's own arithmetic."""

import math

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations._checks import check_axes, check_choice

Row = list[float]


@implementation
def add_norm(
    x: Tensor,  # ... e
    y: Tensor,  # ... e
    weight: Tensor,  # e
    bias: Tensor,  # e
    *,
    norm: str = "layer",
    eps: float = 1e-5,
) -> Tensor:
    """Return x + y, normalised over features ("layer") or positions ("batch"), of x's shape and dtype.

    Raises ValueError for shapes that differ and for unknown norms.
    """
    check_axes(x=(x, "... e"), y=(y, "... e"), weight=(weight, "e"), bias=(bias, "e"))
    check_choice("norm", norm, ("layer", "batch"))
    rows = [[a + b for a, b in zip(one, other, strict=True)] for one, other in zip(_rows(x), _rows(y), strict=True)]
    if norm == "layer":
        normalised = [_normalised(row, eps) for row in rows]
    else:
        if len(rows) < 2:
            raise ValueError(f"a batch of {len(rows)} position has no variance")
        columns = [_normalised(list(column), eps) for column in zip(*rows, strict=True)]
        normalised = [list(row) for row in zip(*columns, strict=True)]
    scaled = [
        [number * w + b for number, w, b in zip(row, weight.tolist(), bias.tolist(), strict=True)] for row in normalised
    ]
    return torch.tensor(scaled, dtype=torch.float64).reshape(x.shape).to(x.device, x.dtype)


def _rows(tensor: Tensor) -> list[Row]:
    rows: list[Row] = tensor.reshape(math.prod(tensor.shape[:-1]), tensor.shape[-1]).tolist()
    return rows


def _normalised(row: Row, eps: float) -> Row:
    mean = math.fsum(row) / len(row)
    variance = math.fsum((number - mean) ** 2 for number in row) / len(row)
    return [(number - mean) / math.sqrt(variance + eps) for number in row]
