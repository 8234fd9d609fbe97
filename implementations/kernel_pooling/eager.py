"""Kernel pooling as PyTorch operations; the Gaussian is a softmax."""

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations._checks import check_axes, check_choice

KERNELS = {
    "boxcar": lambda u: (u.abs() < 1).to(u.dtype),
    "constant": torch.ones_like,
    "triangular": lambda u: (1 - u.abs()).relu(),
    "epanechikov": lambda u: (1 - u * u).relu(),
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

    Raises ValueError, before any work, for unknown kernels, widths not above zero, and shapes that do not fit.
    """
    check_choice("kernel", kernel, ("gaussian", *KERNELS))
    if not width > 0:
        raise ValueError(f"width is {width}, expected a number above 0")
    check_axes(query=(query, "l"), key=(key, "s"), value=(value, "s v"))
    wide = torch.float32 if query.dtype in (torch.float16, torch.bfloat16) else query.dtype
    distances = (query.to(wide).unsqueeze(1) - key.to(wide)) / width  # l s
    if kernel == "gaussian":
        weights = (distances * distances / -2).softmax(-1)
    else:
        weights = KERNELS[kernel](distances)
        total = weights.sum(-1, keepdim=True)
        weights = weights / total.masked_fill(total == 0, 1.0)
    return (weights @ value.to(wide)).to(query.dtype)
