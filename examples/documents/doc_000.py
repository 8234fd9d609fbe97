"""doc-000 as its reader types it: scaled dot-product attention by hand, by the library, and with masks."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def by_library(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None) -> Tensor:
    """Ways 1 and 2.2: the library's fused call."""
    return F.scaled_dot_product_attention(query, key, value, attn_mask=attn_mask)


def without_scale(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Way 2: said to equal the library's result up to rounding."""
    return torch.matmul(torch.softmax(torch.matmul(query, key.transpose(-2, -1)), dim=-1), value)


def by_hand(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None) -> Tensor:
    """Ways 3 and 2.1: scaled, and a mask that is added after scaling."""
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
    if attn_mask is not None:
        scores = scores + attn_mask
    return torch.matmul(torch.softmax(scores, dim=-1), value)


def causal_mask(size: int) -> Tensor:
    """Ones that stay where a query may attend, −∞ elsewhere."""
    mask = torch.tril(torch.ones(size, size))
    return mask.masked_fill(mask == 0, float("-inf"))
