"""The feed-forward network as PyTorch's layers, to which the weights are given."""

import torch
from torch import Tensor
from torch.nn import functional

from attnsuite import implementation
from attnsuite.implementations._checks import check_axes, check_choice

ACTIVATIONS = {"relu": functional.relu, "gelu": functional.gelu}


@implementation
def positionwise_ffn(
    x: Tensor,  # ... e
    w1: Tensor,  # e f
    b1: Tensor,  # f
    w2: Tensor,  # f v
    b2: Tensor,  # v
    *,
    activation: str = "relu",
) -> Tensor:
    """Return activation(x w1 + b1) w2 + b2, of shape ... v and x's dtype.

    Raises ValueError, before any work, for widths that do not chain and for unknown activations.
    """
    check_choice("activation", activation, tuple(ACTIVATIONS))
    check_axes(x=(x, "... e"), w1=(w1, "e f"), b1=(b1, "f"), w2=(w2, "f v"), b2=(b2, "v"))
    wide = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    hidden = ACTIVATIONS[activation](functional.linear(x.to(wide), w1.T.to(wide), b1.to(wide)))
    return functional.linear(hidden, w2.T.to(wide), b2.to(wide)).to(x.dtype)
