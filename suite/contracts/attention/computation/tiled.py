"""Tiles of 32 keys with an online softmax, in two halves that are merged."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from attnsuite.cases.mutants import formula
from attnsuite.contracts.attention.computation.asked import Asked, check
from attnsuite.contracts.attention.computation.base import Computation, computed
from attnsuite.contracts.attention.computation.dense import Dense
from attnsuite.contracts.attention.lazily import torch

if TYPE_CHECKING:
    from torch import Tensor


Inputs = tuple["Tensor", "Tensor", "Tensor"]
Bounds = tuple[int, int]


class Partial(NamedTuple):
    """What a stream over keys knows so far."""

    output: Tensor  # ... l v, not normalised
    total: Tensor  # ... l 1
    largest: Tensor  # ... l 1


class Tile(NamedTuple):
    """Scores of some queries with some keys, and those keys' values."""

    scores: Tensor  # ... l s
    value: Tensor  # ... s v
    keep: Tensor | float  # ... l s, what features multiply the weights by


class Tiled(Computation):
    """Attention as kernels stream it."""

    query_tile = 128
    key_tile = 32

    def __call__(self, asked: Asked) -> Any:
        check(asked)
        query, key, value = Dense.widen(asked)
        key, value = self.spread(key, value, asked)
        keep = multiplier(query.new_empty(asked.scores_shape), asked)
        rows = []
        for bounds in self.query_bounds(asked.queries, self.query_tile):
            parts = [self.stream(asked, (query, key, value), keep, bounds, half) for half in self.halves(asked.keys)]
            rows.append(self.normalise(self.merge(parts)))
        return torch.cat(rows, dim=-2).to(asked.query.dtype)

    def stream(self, asked: Asked, inputs: Inputs, keep: Tensor | float, rows: Bounds, keys: Bounds) -> Partial:
        """A tile of queries over some of the keys, one tile after another."""
        (query, key, value), (first, last) = inputs, rows
        part = self.begin(query[..., first:last, :], asked.value_width)
        for start, stop in self.key_bounds(*keys, self.key_tile):
            products = Dense.products(query[..., first:last, :], key[..., start:stop, :])
            scores = self.score(products, asked, asked.grid(rows, (start, stop)))
            kept = keep if isinstance(keep, float) else keep[..., first:last, start:stop]
            part = self.step(part, Tile(scores, value[..., start:stop, :], kept))
        return part

    def step(self, before: Partial, tile: Tile) -> Partial:
        largest = self.running_largest(before.largest, tile.scores)
        return self.accumulate(self.rescale(before, largest), tile)

    query_bounds = staticmethod(lambda count, tile: tiles(0, count, tile))
    halves = staticmethod(lambda count: [(0, count // 2), (count // 2, count)])
    key_bounds = staticmethod(lambda start, stop, tile: tiles(start, stop, tile))

    @staticmethod
    def begin(query: Tensor, value_width: int) -> Partial:
        zeros = query.new_zeros(*query.shape[:-1], 1)
        return Partial(zeros.repeat(*[1] * (zeros.dim() - 1), value_width), zeros, torch.full_like(zeros, -math.inf))

    @staticmethod
    def running_largest(before: Tensor, scores: Tensor) -> Tensor:
        return torch.maximum(before, scores.detach().amax(-1, keepdim=True)) if scores.shape[-1] else before

    @staticmethod
    def rescale(before: Partial, largest: Tensor) -> Partial:
        shrink = shift(before.largest, largest).exp()
        return Partial(before.output * shrink, before.total * shrink, largest)

    @staticmethod
    def accumulate(before: Partial, tile: Tile) -> Partial:
        powers = shift(tile.scores, before.largest).exp()
        output = before.output + (powers * tile.keep) @ tile.value
        return Partial(output, before.total + powers.sum(-1, keepdim=True), before.largest)

    @staticmethod
    def merge(parts: list[Partial]) -> Partial:
        largest = torch.stack([part.largest for part in parts]).amax(0)
        shrinks = [shift(part.largest, largest).exp() for part in parts]
        output = torch.stack([part.output * shrink for part, shrink in zip(parts, shrinks, strict=True)]).sum(0)
        total = torch.stack([part.total * shrink for part, shrink in zip(parts, shrinks, strict=True)]).sum(0)
        return Partial(output, total, largest)

    normalise = formula(lambda part: part.output / part.total.masked_fill(part.total == 0, 1.0))


def multiplier(weights: Tensor, asked: Asked) -> Tensor | float:
    """What features multiply the weights by, all together; 1 where none does."""
    keep: Tensor | float = 1.0
    for each in computed():
        factor = each.multiplier(weights, asked) if each.multiplier else None
        keep = keep if factor is None else keep * factor
    return keep


def tiles(start: int, stop: int, tile: int) -> list[tuple[int, int]]:
    """Cut into tiles; nothing at all is one empty tile, so that the answer still hangs on its inputs."""
    return [(first, min(first + tile, stop)) for first in range(start, stop, tile)] or [(start, start)]


def shift(scores: Tensor, largest: Tensor) -> Tensor:
    """Scores minus the largest, where −inf minus −inf is −inf."""
    return scores - largest.masked_fill(largest == -math.inf, 0.0)
