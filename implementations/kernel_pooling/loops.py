"""Kernel pooling one pair of points at a time, in Python's own arithmetic."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations._checks import check_axes, check_choice

KERNELS: dict[str, Callable[[float], float]] = {
    "boxcar": lambda u: float(abs(u) < 1),
    "constant": lambda u: 1.0,
    "triangular": lambda u: max(0.0, 1 - abs(u)),
    "epanechikov": lambda u: max(0.0, 1 - u * u),
}


@implementation
def kernel_pooling(
    query: Tensor,  # l
    key: Tensor,  # s
    value: Tensor,  # s v
    *,
    kernel: str = "gaussian",
    width: float = 1.0,
) -> Tensor:
    """Return the mean of the values by the kernel of (query − key)/width, of shape l v and the query's dtype.

    Raises ValueError for unknown kernels, widths not above zero, and shapes that do not fit.
    """
    check_choice("kernel", kernel, ("gaussian", *KERNELS))
    if width <= 0:
        raise ValueError(f"width is {width}, expected a number above 0")
    check_axes(query=(query, "l"), key=(key, "s"), value=(value, "s v"))
    columns = value.T.tolist()
    output = []
    for point in query.tolist():
        distances = [(point - other) / width for other in key.tolist()]
        weights = _gaussian(distances) if kernel == "gaussian" else [KERNELS[kernel](u) for u in distances]
        total = math.fsum(weights) or 1.0
        output.append([math.fsum(w * v for w, v in zip(weights, c, strict=True)) / total for c in columns])
    shape = (len(query), value.shape[1])
    return torch.tensor(output, dtype=torch.float64).reshape(shape).to(query.device, query.dtype)


def _gaussian(distances: list[float]) -> list[float]:
    """The kernel over that of the nearest point, so that it cannot underflow everywhere."""
    nearest = min((u * u for u in distances), default=0.0)
    return [math.exp((nearest - u * u) / 2) for u in distances]
