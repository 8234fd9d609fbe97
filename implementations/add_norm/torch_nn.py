"""The residual connection with PyTorch's own normalisations."""

import torch
from torch import Tensor
from torch.nn import functional

from attnsuite import implementation
from attnsuite.implementations._checks import check_axes, check_choice


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

    Raises ValueError, before any work, for shapes that differ and for unknown norms.
    """
    check_choice("norm", norm, ("layer", "batch"))
    check_axes(x=(x, "... e"), y=(y, "... e"), weight=(weight, "e"), bias=(bias, "e"))
    wide = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    both, weight, bias = x.to(wide) + y.to(wide), weight.to(wide), bias.to(wide)
    if norm == "layer":
        return functional.layer_norm(both, both.shape[-1:], weight, bias, eps).to(x.dtype)
    positions = both.flatten(0, -2)  # n e
    if len(positions) < 2:
        raise ValueError(f"batch normalisation needs 2 positions or more, not {len(positions)}")
    normalised = functional.batch_norm(positions, None, None, weight, bias, training=True, eps=eps)
    return normalised.reshape(x.shape).to(x.dtype)
