"""Mistakes in splitting into heads, in their scale and in joining them again."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from suite.asking.staged import instead_of
from suite.contracts.blocks.multi_head_attention.deviations.staged import MultiHead


@instead_of(MultiHead.factor, "the scores are not divided by √p")
def unscaled(queries: Tensor, values: Tensor, query: Tensor) -> float:
    return 1.0


@instead_of(
    MultiHead.factor, "the scores are divided by the root of the width of all heads together", source="documents, E3"
)
def full_width_scale(queries: Tensor, values: Tensor, query: Tensor) -> float:
    return 1 / math.sqrt(queries.shape[1] * queries.shape[-1])


@instead_of(MultiHead.factor, "the scores are divided by p instead of √p")
def divided_by_head_width(queries: Tensor, values: Tensor, query: Tensor) -> float:
    return 1 / queries.shape[-1]


@instead_of(MultiHead.factor, "the scores are divided by the root of the value heads' width")
def scaled_by_value_heads(queries: Tensor, values: Tensor, query: Tensor) -> float:
    return 1 / math.sqrt(values.shape[-1])


@instead_of(MultiHead.factor, "the head width is taken from the queries before they are mapped", source="documents, E3")
def scaled_by_query_width(queries: Tensor, values: Tensor, query: Tensor) -> float:
    return 1 / math.sqrt(query.shape[-1] / queries.shape[1])


@instead_of(MultiHead.split, "heads are interleaved: column j belongs to head j mod h")
def interleaved_heads(x: Tensor, heads: int) -> Tensor:
    columns: Tensor = x.unflatten(-1, (-1, heads))
    return columns.permute(0, 3, 1, 2)


@instead_of(MultiHead.split, "rows are cut into heads instead of columns: a reshape without a transpose")
def split_by_reshape(x: Tensor, heads: int) -> Tensor:
    return x.reshape(len(x), heads, x.shape[1], x.shape[2] // heads)


@instead_of(MultiHead.split, "all heads are the first")
def repeated_first_head(x: Tensor, heads: int) -> Tensor:
    return MultiHead.split(x, heads)[:, :1].expand(-1, heads, -1, -1)


@instead_of(
    MultiHead.merge, "heads are joined without moving their axis back behind the queries", source="documents, E30"
)
def merged_by_reshape(heads: Tensor) -> Tensor:
    return heads.reshape(len(heads), heads.shape[2], heads.shape[1] * heads.shape[3])


@instead_of(MultiHead.merge, "the columns of heads are interleaved when they are joined")
def merged_column_by_column(heads: Tensor) -> Tensor:
    return heads.permute(0, 2, 3, 1).flatten(2)


@instead_of(MultiHead.merge, "the heads are joined in reverse")
def merged_in_reverse(heads: Tensor) -> Tensor:
    return MultiHead.merge(heads.flip(1))


@instead_of(MultiHead.merge, "every head gives the mean of all")
def averaged_heads(heads: Tensor) -> Tensor:
    return MultiHead.merge(heads.mean(1, keepdim=True).expand_as(heads))


@instead_of(MultiHead.merge, "heads beyond the 8th answer like the 8th")
def repeats_head_beyond_8(heads: Tensor) -> Tensor:
    return MultiHead.merge(torch.cat([heads[:, :8], heads[:, 7:8].expand(-1, max(0, heads.shape[1] - 8), -1, -1)], 1))


@instead_of(MultiHead.merge, "queries beyond the 64th are answered like the 64th")
def repeats_query_beyond_64(heads: Tensor) -> Tensor:
    beyond = max(0, heads.shape[2] - 64)
    return MultiHead.merge(torch.cat([heads[:, :, :64], heads[:, :, 63:64].expand(-1, -1, beyond, -1)], 2))
