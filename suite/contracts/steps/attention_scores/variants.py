"""Correct attention scores in foreign styles."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from attnsuite.cases import Variant
from attnsuite.cases.computations import in_float64, widened
from attnsuite.contracts.steps.attention_scores.contract import SCORES
from attnsuite.contracts.steps.attention_scores.mutants import Scores

Formula = Callable[..., Tensor]


def _function(**formulas: Formula) -> Formula:
    def attention_scores(
        query: Tensor,
        key: Tensor,
        *,
        score: str = "scaled_dot",
        attn_mask: Tensor | None = None,
        **weights: Tensor,
    ) -> Tensor:
        found = formulas[score](query, key, *(weights[name] for name in SCORES[score]))
        return found if attn_mask is None else torch.where(attn_mask, found, -math.inf)

    return attention_scores


def _additive_of_pairs(query: Tensor, key: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor) -> Tensor:
    lead = torch.broadcast_shapes(query[..., :, None, :1].shape, key[..., None, :, :1].shape)[:-1]
    pairs = (query[..., :, None, :].expand(*lead, -1), key[..., None, :, :].expand(*lead, -1))
    return (torch.cat(pairs, -1) @ torch.cat([w_query, w_key])).tanh() @ w_score


QUERIES_FIRST = _function(
    dot=lambda query, key: query @ key.mT,
    scaled_dot=lambda query, key: (query * query.shape[-1] ** -0.5) @ key.mT,
    bilinear=lambda query, key, w: (query @ w) @ key.mT,
    additive=_additive_of_pairs,
    distance=lambda query, key: (query[..., :, None, :] - key[..., None, :, :]).square().sum(-1) / -2,
)
"""Whatever can be done to the queries is done before the product."""


def _expanded_distance(query: Tensor, key: Tensor) -> Tensor:
    squares = (key * key).sum(-1)[..., None, :] / 2
    return query @ key.mT - squares - (query * query).sum(-1, keepdim=True) / 2


def _additive_by_query(query: Tensor, key: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor) -> Tensor:
    rows = [(key @ w_key + row @ w_query).tanh() @ w_score for row in query.split(1, -2)]
    return torch.stack(rows, -2) if rows and query.shape[-2] else query.new_zeros(*query.shape[:-1], key.shape[-2])


KEYS_FIRST = _function(
    dot=lambda query, key: (key @ query.mT).mT.contiguous(),
    scaled_dot=lambda query, key: query @ (key / math.sqrt(key.shape[-1])).mT,
    bilinear=lambda query, key, w: query @ (w @ key.mT),
    additive=_additive_by_query,
    distance=_expanded_distance,
)
"""Keys are mapped and scaled, queries stay as they are; distances are expanded."""


def _with_root_of_scale(query: Tensor, key: Tensor) -> Tensor:
    root = query.shape[-1] ** -0.25
    return torch.einsum("...le,...se->...ls", root * query.flip(-1), root * key.flip(-1))


def _additive_by_einsum(query: Tensor, key: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor) -> Tensor:
    queries = torch.einsum("...lq,qe->...le", query, w_query)[..., :, None, :]
    keys = torch.einsum("...sk,ke->...se", key, w_key)[..., None, :, :]
    return torch.einsum("...e,e->...", torch.tanh(queries + keys), w_score)


EINSUM = _function(
    dot=lambda query, key: torch.einsum("...le,...se->...ls", query, key),
    scaled_dot=_with_root_of_scale,
    bilinear=lambda query, key, w: torch.einsum("...lq,qk,...sk->...ls", query, w, key),
    additive=_additive_by_einsum,
    distance=lambda q, k: torch.cdist(q, k, compute_mode="donot_use_mm_for_euclid_dist").square() * -0.5,
)
"""Einsum for every sum, in an order of its own; both sides take the root of the scale."""


def _baddbmm(query: Tensor, key: Tensor) -> Tensor:
    queries, keys = query[None].flatten(0, -3), key[None].flatten(0, -3).mT
    found = torch.baddbmm(query.new_zeros(()), queries, keys, beta=0, alpha=query.shape[-1] ** -0.5)
    return found.reshape(*query.shape[:-1], key.shape[-2])


def _bilinear(query: Tensor, key: Tensor, w: Tensor) -> Tensor:
    lead = (*query.shape[:-1], key.shape[-2])
    queries = query[..., :, None, :].expand(*lead, -1).contiguous()
    return functional.bilinear(queries, key[..., None, :, :].expand(*lead, -1).contiguous(), w[None])[..., 0]


def _additive_by_linear(query: Tensor, key: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor) -> Tensor:
    queries, keys = functional.linear(query, w_query.mT), functional.linear(key, w_key.mT)
    features = (queries.unsqueeze(-2) + keys.unsqueeze(-3)).tanh()
    return functional.linear(features, w_score[None]).squeeze(-1)


LIBRARY = _function(
    dot=lambda query, key: torch.matmul(query, key.mT),
    scaled_dot=_baddbmm,
    bilinear=_bilinear,
    additive=_additive_by_linear,
    distance=lambda query, key: torch.cdist(query, key).square() / -2,
)
"""What torch has a function for: linear, bilinear, baddbmm."""


def variants() -> list[Variant]:
    """Five formulas, many orders."""
    queries, keys, einsum = (widened(Scores, each) for each in (QUERIES_FIRST, KEYS_FIRST, EINSUM))
    library = in_float64(Scores, LIBRARY)
    return [
        Variant("queries_first", "what can be done to the queries comes before the product", queries),
        Variant("own_dtype", "the same in the dtype itself, half types too", Scores.checked(QUERIES_FIRST)),
        Variant("keys_first", "keys are mapped and scaled, distances expanded", keys),
        Variant("keys_first_in_own_dtype", "the same in the dtype itself, half types too", Scores.checked(KEYS_FIRST)),
        Variant("einsum", "einsum, and the root of the scale on both sides", einsum),
        Variant("library", "torch's linear, bilinear, baddbmm and cdist, in float64", library),
    ]
