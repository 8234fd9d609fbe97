"""Mistakes in the causal mask."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from suite.asking.staged import instead_of
from suite.contracts.attention.deviations.asked import Asked
from suite.contracts.attention.deviations.staged import Dense, lower_triangle


def _until(scores: Tensor, last: Tensor) -> Tensor:
    """Let each query attend to the keys up to `last`, one number per query."""
    keys = torch.arange(scores.shape[-1], device=scores.device)
    return scores.masked_fill(keys > last.unsqueeze(-1), -math.inf)


def _rows(scores: Tensor) -> Tensor:
    return torch.arange(scores.shape[-2], device=scores.device)


@instead_of(
    Dense.causal_mask,
    "the causal mask is aligned at the lower right: the last query sees the last key; who means that declares "
    'conventions={"causal": "lower_right"}',
    source="flash-attention issue 282, pytorch issue 108108",
)
def aligns_causal_at_the_end(scores: Tensor, asked: Asked) -> Tensor:
    return scores.masked_fill(~lower_triangle(scores, asked.keys - asked.queries), -math.inf)


@instead_of(Dense.causal_mask, "a query does not see its own position", source="documents: doc-002 E9")
def excludes_the_diagonal(scores: Tensor, asked: Asked) -> Tensor:
    return scores.masked_fill(~lower_triangle(scores, -1), -math.inf)


@instead_of(
    Dense.causal_mask, "a query sees one key of the future", source="transformers issue 39408 (window off by one)"
)
def allows_one_future_key(scores: Tensor, asked: Asked) -> Tensor:
    return scores.masked_fill(~lower_triangle(scores, 1), -math.inf)


@instead_of(Dense.causal_mask, "is_causal is ignored")
def ignores_causal(scores: Tensor, asked: Asked) -> Tensor:
    return scores


@instead_of(Dense.causal_mask, "a query sees the future instead of the past: upper triangle for lower")
def looks_ahead(scores: Tensor, asked: Asked) -> Tensor:
    return scores.masked_fill(lower_triangle(scores, -1), -math.inf)


@instead_of(
    Dense.causal_mask,
    "the causal mask is the same for each group of four queries: the future leaks",
    source="pytorch issue 195910",
)
def masks_causal_by_four_queries(scores: Tensor, asked: Asked) -> Tensor:
    return _until(scores, _rows(scores) // 4 * 4 + 3)


@instead_of(Dense.causal_mask, "the causal mask begins with the 17th query, the first tile sees all keys")
def ignores_causal_in_first_tile(scores: Tensor, asked: Asked) -> Tensor:
    rows = _rows(scores)
    return _until(scores, rows.masked_fill(rows < 16, asked.keys))


@instead_of(Dense.causal_mask, "the causal mask ends with the 64th query")
def ignores_causal_beyond_64_queries(scores: Tensor, asked: Asked) -> Tensor:
    rows = _rows(scores)
    return _until(scores, rows.masked_fill(rows >= 64, asked.keys))


@instead_of(Dense.causal_mask, "keys of the last tile of 32 are never masked: their future leaks")
def leaks_future_of_last_tile(scores: Tensor, asked: Asked) -> Tensor:
    keys = torch.arange(asked.keys, device=scores.device)
    last_tile = (keys >= (asked.keys - 1) // 32 * 32) if asked.keys > 32 else torch.zeros_like(keys, dtype=torch.bool)
    return scores.masked_fill(~(lower_triangle(scores) | last_tile), -math.inf)


@instead_of(Dense.causal_mask, "is_causal is ignored when there are fewer queries than keys")
def ignores_causal_with_fewer_queries(scores: Tensor, asked: Asked) -> Tensor:
    return scores if asked.queries < asked.keys else Dense.causal_mask(scores, asked)


@instead_of(Dense.causal_mask, "is_causal is ignored when there are more queries than keys")
def ignores_causal_with_more_queries(scores: Tensor, asked: Asked) -> Tensor:
    return scores if asked.queries > asked.keys else Dense.causal_mask(scores, asked)


@instead_of(Dense.causal_mask, "is_causal is ignored unless there are as many queries as keys")
def applies_causal_only_to_squares(scores: Tensor, asked: Asked) -> Tensor:
    return scores if asked.queries != asked.keys else Dense.causal_mask(scores, asked)


@instead_of(
    Dense.causal_mask,
    "is_causal is ignored for a single query",
    source="decoding paths: `is_causal and query_length > 1`",
)
def ignores_causal_for_one_query(scores: Tensor, asked: Asked) -> Tensor:
    return scores if asked.queries == 1 else Dense.causal_mask(scores, asked)


@instead_of(Dense.causal_mask, "is_causal is ignored when heads are grouped")
def ignores_causal_when_grouped(scores: Tensor, asked: Asked) -> Tensor:
    return scores if asked.grouped else Dense.causal_mask(scores, asked)


@instead_of(Dense.causal_mask, "is_causal is ignored when there is dropout")
def ignores_causal_with_dropout(scores: Tensor, asked: Asked) -> Tensor:
    return scores if asked.dropout_p > 0 else Dense.causal_mask(scores, asked)


@instead_of(Dense.causal_mask, "is_causal is ignored in rank 2")
def ignores_causal_in_rank_2(scores: Tensor, asked: Asked) -> Tensor:
    return scores if asked.rank == 2 else Dense.causal_mask(scores, asked)


@instead_of(Dense.causal_mask, "the causal mask is applied to the first head only")
def masks_causal_in_first_head_only(scores: Tensor, asked: Asked) -> Tensor:
    if asked.heads < 2:
        return Dense.causal_mask(scores, asked)
    return torch.cat([Dense.causal_mask(scores[..., :1, :, :], asked), scores[..., 1:, :, :]], dim=-3)


@instead_of(
    Dense.causal_mask, "masked scores become 0 instead of −∞", source="textbook codes that multiply by a triangle"
)
def zeroes_future_scores(scores: Tensor, asked: Asked) -> Tensor:
    return scores.masked_fill(~lower_triangle(scores), 0.0)


@instead_of(Dense.causal_mask, "only the last 32 keys are seen: a sliding window", source="transformers issue 39408")
def slides_a_window_of_32(scores: Tensor, asked: Asked) -> Tensor:
    return scores.masked_fill(~lower_triangle(scores) | lower_triangle(scores, -32), -math.inf)
