"""All parts at once: a softmax of the log-sum-exps weights the outputs."""

import torch
from torch import Tensor

from attnsuite import implementation


@implementation
def merge_states(
    outputs: Tensor,  # n … l v
    lses: Tensor,  # n … l
) -> tuple[Tensor, Tensor]:  # … l v and … l
    """Return the output and the log-sum-exp over all parts; zeros and −inf where all parts are empty.

    Raises ValueError, before any work, if lses have other axes than outputs without their width.
    """
    if outputs.dim() < 2 or lses.shape != outputs.shape[:-1]:
        raise ValueError(
            f"lses should have the shape of outputs without its width, {tuple(outputs.shape[:-1])}, "
            f"not {tuple(lses.shape)}"
        )
    weights = torch.softmax(lses, 0).masked_fill((lses == -torch.inf).all(0), 0.0)  # softmax of −inf alone is NaN
    output = torch.einsum("n...,n...v->...v", weights, outputs.to(lses.dtype))
    return output.to(outputs.dtype), torch.logsumexp(lses, 0)
