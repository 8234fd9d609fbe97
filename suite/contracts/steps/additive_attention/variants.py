"""Correct additive attentions in foreign styles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from attnsuite.cases import Variant
from attnsuite.cases.computations import convolved, in_numpy, widened
from attnsuite.contracts.steps.additive_attention.mutants import Additive

Array = np.ndarray[Any, Any]


def _one_product(*tensors: Tensor, attn_mask: Tensor | None = None) -> Tensor:
    """Every pair of query and key side by side, times both matrices one below the other."""
    query, key, value, w_query, w_key, w_score = tensors
    lead = (len(query), query.shape[1], key.shape[1])
    pairs = torch.cat([query[:, :, None].expand(*lead, -1), key[:, None].expand(*lead, -1)], -1)
    scores = functional.linear(pairs, torch.cat([w_query, w_key]).mT).tanh() @ w_score
    return _attend(scores, value, attn_mask)


def _convolved(*tensors: Tensor, attn_mask: Tensor | None = None) -> Tensor:
    """Maps are convolutions of one step; features are an axis between queries and keys."""
    query, key, value, w_query, w_key, w_score = tensors
    queries, keys = convolved(query, w_query), convolved(key, w_key).mT  # b l e, b e s
    features = (queries[..., None] + keys[:, None]).tanh()  # b l e s
    return _attend(torch.einsum("bles,e->bls", features, w_score), value, attn_mask)


def _one_query_at_a_time(*arrays: Array, attn_mask: Array | None = None) -> Array:
    """Each query by itself, and only the keys that it may attend to."""
    query, key, value, w_query, w_key, w_score = arrays
    shape = (*query.shape[:2], key.shape[1])
    allowed = np.broadcast_to(True if attn_mask is None else attn_mask, shape)
    found = np.zeros((*query.shape[:2], value.shape[2]))
    for item, place in np.ndindex(query.shape[:2]):
        keys = allowed[item, place]
        scores = np.tanh(key[item, keys] @ w_key + query[item, place] @ w_query) @ w_score
        powers = np.exp(scores - scores.max(initial=-np.inf))
        found[item, place] = powers @ value[item, keys] / (powers.sum() or 1.0)
    return found


def _attend(scores: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1).nan_to_num(0.0) @ value


def variants() -> list[Variant]:
    """One formula, many ways to compare."""
    numpy = in_numpy(Additive, _one_query_at_a_time)
    return [
        Variant("one_product", "one product of every pair of query and key", widened(Additive, _one_product)),
        Variant("own_dtype", "the same in the dtype itself, half types too", Additive.checked(_one_product)),
        Variant("convolved", "convolutions of one step, and einsum", widened(Additive, _convolved)),
        Variant("one_query_at_a_time", "numpy in float64, one query at a time", numpy),
    ]
