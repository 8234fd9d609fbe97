"""Mistakes at lengths that counters and positions of few bits cannot hold, and in the sums of extreme numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases.mutants import Mutation, mutants, rounded, with_result
from attnsuite.contracts.attention.computation.call import Asked
from attnsuite.contracts.attention.computation.forward import Dense, Whole, correct, normalised
from attnsuite.contracts.attention.computation.gradients import Backward, Saved
from attnsuite.contracts.attention.feature import Grid
from attnsuite.contracts.attention.mutants.rounding import HALF, beyond_half
from attnsuite.contracts.attention.mutants.sizes import at_sizes, first_keys, first_queries

LONG = mutants(
    Whole,
    answer={
        **at_sizes("breaks_beyond_{}_keys", "keys beyond the first {} are not read", first_keys, 8192, 65536),
        **at_sizes("breaks_beyond_{}_queries", "queries beyond the first {} give 0", first_queries, 32768),
        "breaks_beyond_128_heads": Mutation(
            "heads beyond the first 128 give 0", with_result(lambda output, asked: _first_heads(output, asked, 128))
        ),
    },
)


def _first_heads(output: Tensor, asked: Asked, count: int) -> Tensor:
    heads = torch.arange(asked.heads, device=output.device).reshape(-1, 1, 1)
    return output.masked_fill(heads >= count, 0.0) if asked.heads > count else output


def in_half_positions(due: Any) -> Any:
    """A rule of visibility whose positions are numbers of the query's dtype."""

    def seen(grid: Grid, asked: Asked) -> Tensor:
        rows, columns = (each.to(asked.query.dtype).double() for each in (grid.rows, grid.columns))
        return due(replace(grid, rows=rows, columns=columns), asked)  # type: ignore[no-any-return]

    return seen


def _in_window(grid: Grid, asked: Asked) -> Tensor:
    left, right = asked["window"]
    seen: Tensor = grid.j == grid.j + 0 * grid.i
    seen = seen if left is None else seen & (grid.j >= grid.i - left)
    return seen if right is None else seen & (grid.j <= grid.i + right)


POSITIONS = mutants(
    Dense,
    causal={
        "counts_causal_positions_in_half": Mutation(
            "causal compares positions in the query's dtype: from 2,048 on float16 has no odd ones",
            in_half_positions(lambda grid, asked: grid.j <= grid.i),
            dtypes=HALF,
        )
    },
    window={
        "counts_window_positions_in_half": Mutation(
            "a window compares positions in the query's dtype", in_half_positions(_in_window), dtypes=HALF
        )
    },
)


@Dense.instead("products", "the products of query and key are summed in the half type, one by one", dtypes=HALF)
def sums_products_in_half(query: Tensor, key: Tensor) -> Tensor:
    """Numbers of a half type are recognised by what is left when they are rounded to it."""
    half = next((dtype for dtype in (torch.bfloat16, torch.float16) if _fits(query, dtype) and _fits(key, dtype)), None)
    if half is None:
        return Dense.products(query, key)
    total = Dense.products(query[..., :0], key[..., :0])
    for place in range(query.shape[-1]):
        total = rounded(half)(total + Dense.products(query[..., place : place + 1], key[..., place : place + 1]))
    return total


def _fits(tensor: Tensor, dtype: torch.dtype) -> bool:
    return bool((tensor.detach().to(dtype) == tensor).all())


EXTREME = mutants(
    Backward,
    weights={
        "backward_subtracts_no_maximum": Mutation(
            "the backward computes the weights again without subtracting the largest score",
            lambda saved: _without_maximum(saved),
        )
    },
    weights_gradient={
        "products_with_output_gradient_overflow": Mutation(
            "the products of output gradient and values are kept in float16, where they overflow",
            with_result(beyond_half),
            dtypes=("float16",),
        )
    },
)


def _without_maximum(saved: Saved) -> Tensor:
    scores = correct.score(Dense.products(saved.query, saved.key), saved.asked, saved.asked.grid())
    return normalised(scores.exp())
