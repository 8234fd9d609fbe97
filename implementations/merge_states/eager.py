"""Parts merged one after another by logaddexp, in the dtype of the log-sum-exps."""

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
    output, lse = outputs[0].to(lses.dtype), lses[0].clone()
    for part, part_lse in zip(outputs[1:].to(lses.dtype), lses[1:], strict=True):
        merged = torch.logaddexp(lse, part_lse)
        output = output * _weight(lse, merged) + part * _weight(part_lse, merged)
        lse = merged
    return output.to(outputs.dtype, copy=True), lse


def _weight(lse: Tensor, merged: Tensor) -> Tensor:
    """exp(lse − merged) with an axis for the width; 0 where the part is empty."""
    empty = lse == -torch.inf
    difference = torch.where(empty, 0.0, lse) - torch.where(empty, 0.0, merged)
    return difference.exp().masked_fill(empty, 0.0).unsqueeze(-1)
