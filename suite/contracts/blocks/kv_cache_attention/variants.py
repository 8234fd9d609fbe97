"""Correct implementations of the contract `kv_cache_attention` in other styles."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attnsuite.cases import Variant
from attnsuite.contracts.blocks.kv_cache_attention.computation import Cached

PART = 5
"""Keys of a part."""


def _in_parts(query: Tensor, keys: Tensor, values: Tensor, seen: Tensor) -> Tensor:
    """An online softmax over parts of the keys."""
    largest = query.new_full((*query.shape[:2], 1), -math.inf)  # l h 1
    sums, mixed = torch.zeros_like(largest), torch.zeros_like(query)
    for part in range(0, len(keys), PART):
        some = slice(part, part + PART)
        scores = torch.einsum("lhe,the->lht", query, keys[some]).masked_fill(~seen[:, None, some], -math.inf)
        now = torch.maximum(largest, scores.amax(-1, keepdim=True))
        finite = now.masked_fill(now == -math.inf, 0.0)
        shrink, powers = (largest - finite).exp(), (scores - finite).exp()
        mixed = mixed * shrink + torch.einsum("lht,the->lhe", powers, values[some])
        sums, largest = sums * shrink + powers.sum(-1, keepdim=True), now
    return mixed / sums.masked_fill(sums == 0, 1.0)


def _sdpa(query: Tensor, keys: Tensor, values: Tensor, seen: Tensor) -> Tensor:
    """PyTorch's function with a boolean mask; it does not define empty rows, nor the attention to no keys."""
    if not seen.numel():
        return torch.zeros_like(query)
    query, keys, values = (x.transpose(0, 1) for x in (query, keys, values))  # heads first
    output = scaled_dot_product_attention(query, keys, values, seen, scale=1.0)
    return output.transpose(0, 1).masked_fill(~seen.any(-1)[:, None, None], 0.0)


def _rounded(numbers: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    """Vectors of int8 caches, rounded to the query's dtype."""
    return (numbers * scales).to(dtype).to(numbers.dtype)


def variants() -> list[Variant]:
    """Correct implementations in other orders and precisions."""
    return [
        Variant("in_parts", "an online softmax over parts of the keys", Cached(attend=_in_parts, dequantise=_rounded)),
        Variant("sdpa", "PyTorch's attention for each item", Cached(attend=_sdpa, dequantise=_rounded)),
        Variant("float64", "everything in float64", Cached(wide=lambda query: torch.float64)),
    ]
