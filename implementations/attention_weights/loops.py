"""Attention weights row by row, in Python's own arithmetic."""

import math
from itertools import product

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

    Raises ValueError for inputs that are not defined.
    """
    check_choice("normaliser", normaliser, ("softmax", "sum"))
    check_mask(attn_mask, scores.shape)
    *lead, queries, keys = scores.shape
    mask = None if attn_mask is None else attn_mask.expand(scores.shape)
    ends = None if lengths is None else _ends(lengths, scores)
    weights = torch.zeros(scores.shape, dtype=torch.float64)
    for place in product(*map(range, (*lead, queries))):
        row = scores[place].tolist()
        allowed = [
            key
            for key in range(keys)
            if (mask is None or mask[place][key])
            and (ends is None or key < ends[place[: ends.dim()]])
            and not (is_causal and key > place[-1])
        ]
        for key, weight in _weights({key: row[key] for key in allowed}, normaliser).items():
            weights[place][key] = weight
    return weights.to(scores.device, scores.dtype)


def _weights(row: dict[int, float], normaliser: str) -> dict[int, float]:
    if normaliser == "softmax":
        largest = max(row.values(), default=-math.inf)
        row = {key: math.exp(score - largest) for key, score in row.items() if score > -math.inf}
    total = math.fsum(row.values())
    return {key: term / total for key, term in row.items()}


def _ends(lengths: Tensor, scores: Tensor) -> Tensor:
    if lengths.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"lengths hold {lengths.dtype}, should hold torch.int64")
    if scores.dim() != 3 or tuple(lengths.shape) not in (tuple(scores.shape[:1]), tuple(scores.shape[:2])):
        raise ValueError(f"lengths {tuple(lengths.shape)} are not for scores {tuple(scores.shape)}")
    if int(lengths.min()) < 0:
        raise ValueError(f"lengths hold {int(lengths.min())}, should hold nothing below 0")
    return lengths
