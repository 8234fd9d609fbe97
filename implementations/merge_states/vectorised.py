"""All parts at once: a softmax of the log-sum-exps weights the outputs."""

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations._checks import check_axes


@implementation
def merge_states(
    outputs: Tensor,  # n … l v
    lses: Tensor,  # n … l
) -> tuple[Tensor, Tensor]:  # … l v and … l
    """Return the output and the log-sum-exp over all parts; zeros and −inf where all parts are empty.

    Raises ValueError, before any work, if lses have other axes than outputs without their width.
    """
    check_axes(lses=(lses, "... l"), outputs=(outputs, "... l v"))
    weights = torch.softmax(lses, 0).masked_fill((lses == -torch.inf).all(0), 0.0)  # softmax of −inf alone is NaN
    output = torch.einsum("n...,n...v->...v", weights, outputs.to(lses.dtype))
    return output.to(outputs.dtype), torch.logsumexp(lses, 0)
