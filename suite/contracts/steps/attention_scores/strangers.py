"""Correct attention scores in foreign styles."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional

from suite.asking import Stranger
from suite.asking.foreign import in_float64, widened
from suite.contracts.steps.attention_scores.contract import SCORES
from suite.contracts.steps.attention_scores.deviations import Scores

Formula = Callable[..., Tensor]


def _function(formulas: Mapping[str, Formula]) -> Formula:
    def attention_scores(query: Tensor, key: Tensor, *, score: str = "scaled_dot", **weights: Tensor) -> Tensor:
        return formulas[score](query, key, *(weights[name] for name in SCORES[score]))

    return attention_scores


def _queries_first() -> Formula:
    """Whatever can be done to the queries is done before the product."""

    def additive(query: Tensor, key: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor) -> Tensor:
        lead = torch.broadcast_shapes(query[..., :, None, :1].shape, key[..., None, :, :1].shape)[:-1]
        pairs = (query[..., :, None, :].expand(*lead, -1), key[..., None, :, :].expand(*lead, -1))
        return (torch.cat(pairs, -1) @ torch.cat([w_query, w_key])).tanh() @ w_score

    return _function(
        {
            "dot": lambda query, key: query @ key.mT,
            "scaled_dot": lambda query, key: (query * query.shape[-1] ** -0.5) @ key.mT,
            "bilinear": lambda query, key, w: (query @ w) @ key.mT,
            "additive": additive,
            "distance": lambda query, key: (query[..., :, None, :] - key[..., None, :, :]).square().sum(-1) / -2,
        }
    )


def _keys_first() -> Formula:
    """Keys are mapped and scaled, queries stay as they are; distances are expanded."""

    def distance(query: Tensor, key: Tensor) -> Tensor:
        squares = (key * key).sum(-1)[..., None, :] / 2
        return query @ key.mT - squares - (query * query).sum(-1, keepdim=True) / 2

    def additive(query: Tensor, key: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor) -> Tensor:
        rows = [(key @ w_key + row @ w_query).tanh() @ w_score for row in query.split(1, -2)]
        return torch.stack(rows, -2) if rows and query.shape[-2] else query.new_zeros(*query.shape[:-1], key.shape[-2])

    return _function(
        {
            "dot": lambda query, key: (key @ query.mT).mT.contiguous(),
            "scaled_dot": lambda query, key: query @ (key / math.sqrt(key.shape[-1])).mT,
            "bilinear": lambda query, key, w: query @ (w @ key.mT),
            "additive": additive,
            "distance": distance,
        }
    )


def _einsum() -> Formula:
    """Einsum for every sum, in an order of its own; both sides take the root of the scale."""

    def scaled_dot(query: Tensor, key: Tensor) -> Tensor:
        root = query.shape[-1] ** -0.25
        return torch.einsum("...le,...se->...ls", root * query.flip(-1), root * key.flip(-1))

    def additive(query: Tensor, key: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor) -> Tensor:
        queries = torch.einsum("...lq,qe->...le", query, w_query)[..., :, None, :]
        keys = torch.einsum("...sk,ke->...se", key, w_key)[..., None, :, :]
        return torch.einsum("...e,e->...", torch.tanh(queries + keys), w_score)

    def distance(query: Tensor, key: Tensor) -> Tensor:
        return torch.cdist(query, key, compute_mode="donot_use_mm_for_euclid_dist").square() * -0.5

    return _function(
        {
            "dot": lambda query, key: torch.einsum("...le,...se->...ls", query, key),
            "scaled_dot": scaled_dot,
            "bilinear": lambda query, key, w: torch.einsum("...lq,qk,...sk->...ls", query, w, key),
            "additive": additive,
            "distance": distance,
        }
    )


def _library() -> Formula:
    """What torch has a function for: linear, bilinear, baddbmm."""

    def scaled_dot(query: Tensor, key: Tensor) -> Tensor:
        queries, keys = query[None].flatten(0, -3), key[None].flatten(0, -3).mT
        found = torch.baddbmm(query.new_zeros(()), queries, keys, beta=0, alpha=query.shape[-1] ** -0.5)
        return found.reshape(*query.shape[:-1], key.shape[-2])

    def bilinear(query: Tensor, key: Tensor, w: Tensor) -> Tensor:
        lead = (*query.shape[:-1], key.shape[-2])
        queries = query[..., :, None, :].expand(*lead, -1).contiguous()
        return functional.bilinear(queries, key[..., None, :, :].expand(*lead, -1).contiguous(), w[None])[..., 0]

    def additive(query: Tensor, key: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor) -> Tensor:
        queries, keys = functional.linear(query, w_query.mT), functional.linear(key, w_key.mT)
        features = (queries.unsqueeze(-2) + keys.unsqueeze(-3)).tanh()
        return functional.linear(features, w_score[None]).squeeze(-1)

    return _function(
        {
            "dot": lambda query, key: torch.matmul(query, key.mT),
            "scaled_dot": scaled_dot,
            "bilinear": bilinear,
            "additive": additive,
            "distance": lambda query, key: torch.cdist(query, key).square() / -2,
        }
    )


def strangers() -> list[Stranger]:
    """Five formulas, many orders."""
    in_own_dtype, library = "the same in the dtype itself, half types too", in_float64(Scores, _library())
    queries_first, keys_first, einsum = (widened(Scores, each()) for each in (_queries_first, _keys_first, _einsum))
    return [
        Stranger("queries_first", "what can be done to the queries comes before the product", queries_first),
        Stranger("own_dtype", in_own_dtype, Scores.checked(_queries_first())),
        Stranger("keys_first", "keys are mapped and scaled, distances expanded", keys_first),
        Stranger("keys_first_in_own_dtype", in_own_dtype, Scores.checked(_keys_first())),
        Stranger("einsum", "einsum, and the root of the scale on both sides", einsum),
        Stranger("library", "torch's linear, bilinear, baddbmm and cdist, in float64", library),
    ]
