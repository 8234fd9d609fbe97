"""Attention weights by PyTorch's softmax."""

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations._checks import check_choice, check_mask


@implementation
def attention_weights(
    scores: Tensor,  # ... l s
    *,
    normaliser: str = "softmax",
    attn_mask: Tensor | None = None,  # broadcastable to ... l s, True = may attend
    lengths: Tensor | None = None,  # b or b l, for scores b l s
    is_causal: bool = False,
) -> Tensor:
    """Return weights over the keys, of the scores' shape and dtype: a softmax, or each score over their sum.

    Raises ValueError, before any work, for inputs that are not defined.
    """
    _check(scores, normaliser, attn_mask, lengths)
    *_, queries, keys = scores.shape
    allowed = torch.ones(scores.shape, dtype=torch.bool, device=scores.device)
    if attn_mask is not None:
        allowed &= attn_mask
    if lengths is not None:
        places = torch.arange(keys, device=scores.device)
        allowed &= places < lengths.reshape(*lengths.shape, *[1] * (scores.dim() - lengths.dim()))
    if is_causal:
        allowed &= torch.ones(queries, keys, dtype=torch.bool, device=scores.device).tril()
    wide = torch.float32 if scores.dtype in (torch.float16, torch.bfloat16) else scores.dtype
    if normaliser == "sum":
        terms = scores.to(wide).masked_fill(~allowed, 0.0)
        total = terms.sum(-1, keepdim=True)
        return (terms / total.masked_fill(~allowed.any(-1, keepdim=True), 1.0)).to(scores.dtype)
    shown = allowed & (scores > -torch.inf)
    empty = ~shown.any(-1, keepdim=True)  # ... l 1
    masked = scores.to(wide).masked_fill(~shown, -torch.inf).masked_fill(empty, 0.0)
    return masked.softmax(-1).masked_fill(empty, 0.0).to(scores.dtype)


def _check(scores: Tensor, normaliser: str, mask: Tensor | None, lengths: Tensor | None) -> None:
    shape = tuple(scores.shape)
    check_choice("normaliser", normaliser, ("softmax", "sum"))
    check_mask(mask, shape)
    if lengths is not None:
        if lengths.is_floating_point() or lengths.dtype == torch.bool:
            raise ValueError(f"lengths should be integers, not {lengths.dtype}")
        if scores.dim() != 3 or lengths.dim() not in (1, 2) or lengths.shape != scores.shape[: lengths.dim()]:
            raise ValueError(f"lengths {tuple(lengths.shape)} are not those of items or queries of scores {shape}")
        if (lengths < 0).any():
            raise ValueError(f"lengths should be 0 or more, not {int(lengths.min())}")
