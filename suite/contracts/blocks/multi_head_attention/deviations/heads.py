"""Mistakes in splitting into heads, in their scale and in joining them again."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from suite.asking.staged import Mistake, instead_of, mistakes
from suite.contracts.blocks.multi_head_attention.deviations.staged import MultiHead

IN_FACTOR = mistakes(
    MultiHead.factor,
    unscaled=Mistake("the scores are not divided by √p", lambda queries, values, query: 1.0),
    full_width_scale=Mistake(
        "the scores are divided by the root of the width of all heads together",
        lambda queries, values, query: 1 / math.sqrt(queries.shape[1] * queries.shape[-1]),
        source="documents, E3",
    ),
    divided_by_head_width=Mistake(
        "the scores are divided by p instead of √p", lambda queries, values, query: 1 / queries.shape[-1]
    ),
    scaled_by_value_heads=Mistake(
        "the scores are divided by the root of the value heads' width",
        lambda queries, values, query: 1 / math.sqrt(values.shape[-1]),
    ),
    scaled_by_query_width=Mistake(
        "the head width is taken from the queries before they are mapped",
        lambda queries, values, query: 1 / math.sqrt(query.shape[-1] / queries.shape[1]),
        source="documents, E3",
    ),
)


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


IN_MERGE = mistakes(
    MultiHead.merge,
    merged_by_reshape=Mistake(
        "heads are joined without moving their axis back behind the queries",
        lambda heads: heads.reshape(len(heads), heads.shape[2], heads.shape[1] * heads.shape[3]),
        source="documents, E30",
    ),
    merged_column_by_column=Mistake(
        "the columns of heads are interleaved when they are joined", lambda heads: heads.permute(0, 2, 3, 1).flatten(2)
    ),
    merged_in_reverse=Mistake("the heads are joined in reverse", lambda heads: MultiHead.merge(heads.flip(1))),
    averaged_heads=Mistake(
        "every head gives the mean of all", lambda heads: MultiHead.merge(heads.mean(1, keepdim=True).expand_as(heads))
    ),
)


@instead_of(MultiHead.merge, "heads beyond the 8th answer like the 8th")
def repeats_head_beyond_8(heads: Tensor) -> Tensor:
    return MultiHead.merge(torch.cat([heads[:, :8], heads[:, 7:8].expand(-1, max(0, heads.shape[1] - 8), -1, -1)], 1))


@instead_of(MultiHead.merge, "queries beyond the 64th are answered like the 64th")
def repeats_query_beyond_64(heads: Tensor) -> Tensor:
    beyond = max(0, heads.shape[2] - 64)
    return MultiHead.merge(torch.cat([heads[:, :, :64], heads[:, :, 63:64].expand(-1, -1, beyond, -1)], 2))
