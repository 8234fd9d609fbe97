"""doc-002 as its reader types it: compare and aggregate, a decoder's step."""

from __future__ import annotations

import torch
from torch import Tensor


def compare(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.transpose(-2, -1)


def aggregate(weights: Tensor, value: Tensor) -> Tensor:
    return weights @ value


def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The states of a decoder against those of an encoder; the document's equation does not scale."""
    return aggregate(torch.softmax(compare(query, key), dim=-1), value)
