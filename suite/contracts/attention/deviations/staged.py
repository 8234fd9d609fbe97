"""Correct attention as computations of small steps, each of which a deviation may replace.

`Dense` writes the formula down, `Tiled` streams over tiles of keys with an online softmax, `Backward` (in
`backward.py`) has its own gradient. A deviation is one of them with one step replaced:

    @instead_of(Dense.factor, "the scores are not divided by √e")
    def unscaled(asked: Asked) -> float:
        return 1.0 if asked.scale is None else asked.scale
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from suite.asking import staged
from suite.contracts.attention.deviations.asked import Asked, as_attention, check


class Staged(staged.Staged):
    """Steps of an attention, which see all that is asked at once."""

    def __call__(self, asked: Asked) -> Any:
        raise NotImplementedError

    def as_function(self) -> Callable[..., Any]:
        return as_attention(self)


class Dense(Staged):
    """The formula with the whole matrix of scores."""

    def __call__(self, asked: Asked) -> Any:
        asked = self.receive(asked)
        self.check(asked)
        query, key, value = self.widen(asked)
        key, value = self.expand_heads(key, value, asked.heads)
        scores = self.scores(query, key, self.factor(asked))
        if asked.is_causal:
            scores = self.causal_mask(scores, asked)
        mask = self.mask(asked)
        if mask is not None and mask.dtype == torch.bool:
            scores = self.bool_mask(scores, mask, asked)
        elif mask is not None:
            scores = self.float_mask(scores, mask, asked)
        weights = self.softmax(scores, asked)
        if asked.dropout_p > 0:
            weights = self.dropout(weights, asked.dropout_p)
        return self.finish(self.combine(weights, value, asked), asked)

    @staticmethod
    def receive(asked: Asked) -> Asked:
        return asked

    @staticmethod
    def check(asked: Asked) -> None:
        check(asked)

    @staticmethod
    def widen(asked: Asked) -> tuple[Tensor, Tensor, Tensor]:
        wide = asked.accumulator
        return asked.query.to(wide), asked.key.to(wide), asked.value.to(wide)

    @staticmethod
    def expand_heads(key: Tensor, value: Tensor, heads: int) -> tuple[Tensor, Tensor]:
        if key.dim() == 2 or key.shape[-3] == heads:
            return key, value
        group = heads // key.shape[-3]
        return key.repeat_interleave(group, dim=-3), value.repeat_interleave(group, dim=-3)  # ... h s e|v

    @staticmethod
    def factor(asked: Asked) -> float:
        return asked.factor

    @staticmethod
    def scores(query: Tensor, key: Tensor, factor: float) -> Tensor:
        return (query * factor) @ key.transpose(-1, -2)  # ... h l s

    @staticmethod
    def causal_mask(scores: Tensor, asked: Asked) -> Tensor:
        return scores.masked_fill(~lower_triangle(scores), -math.inf)

    @staticmethod
    def mask(asked: Asked) -> Tensor | None:
        return asked.mask

    @staticmethod
    def bool_mask(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
        return scores.masked_fill(~mask, -math.inf)

    @staticmethod
    def float_mask(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
        return scores + mask.to(scores.dtype)

    @staticmethod
    def softmax(scores: Tensor, asked: Asked) -> Tensor:
        largest = largest_of(scores)  # ... h l 1
        powers = (scores - largest).exp()
        total = powers.sum(-1, keepdim=True)
        return powers / total.masked_fill(total == 0, 1.0)  # an empty row is 0 / 1

    @staticmethod
    def dropout(weights: Tensor, p: float) -> Tensor:
        return weights * multiplier(weights, p)

    @staticmethod
    def combine(weights: Tensor, value: Tensor, asked: Asked) -> Tensor:
        return weights @ value  # ... h l v

    @staticmethod
    def finish(output: Tensor, asked: Asked) -> Any:
        return output.to(asked.query.dtype)


def lower_triangle(scores: Tensor, diagonal: int = 0) -> Tensor:
    """Which keys a query may attend to, j ≤ i + diagonal: l s."""
    return torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril(diagonal)


def largest_of(scores: Tensor) -> Tensor:
    """The largest score of each row, without gradient; 0 where there is none: ... l 1."""
    if scores.shape[-1] == 0:
        return scores.new_zeros(*scores.shape[:-1], 1)
    largest = scores.detach().amax(-1, keepdim=True)
    return largest.masked_fill(largest == -math.inf, 0.0)


def multiplier(weights: Tensor, p: float) -> Tensor:
    """Dropout's factor for each weight: 0 with probability p, else 1/(1−p)."""
    kept = torch.rand(weights.shape, device=weights.device) >= p  # rand is below 1: p = 1 keeps none
    return kept.to(weights.dtype) / (1 - p if p < 1 else 1.0)


correct = Dense()


class Whole(Staged):
    """The whole answer as one step, for mistakes around the formula."""

    def __call__(self, asked: Asked) -> Any:
        check(asked)
        return self.answer(asked)

    @staticmethod
    def answer(asked: Asked) -> Any:
        return correct(asked)


class Partial(NamedTuple):
    """What a stream over keys knows so far."""

    output: Tensor  # ... l v, not normalised
    total: Tensor  # ... l 1
    largest: Tensor  # ... l 1


class Tile(NamedTuple):
    """Scores of some queries with some keys, and those keys' values."""

    scores: Tensor  # ... l s
    value: Tensor  # ... s v
    keep: Tensor | float  # ... l s, dropout's multiplier


class Tiled(Staged):
    """Tiles of 32 keys with an online softmax, in two halves that are merged."""

    query_tile = 128
    key_tile = 32

    def __call__(self, asked: Asked) -> Any:
        check(asked)
        query, key, value = Dense.widen(asked)
        key, value = Dense.expand_heads(key, value, asked.heads)
        keep = multiplier(query.new_empty(asked.scores_shape), asked.dropout_p) if asked.dropout_p > 0 else None
        rows = []
        for first, last in self.query_bounds(asked.queries, self.query_tile):
            parts = []
            for half in self.halves(asked.keys):
                part = self.begin(query[..., first:last, :], asked.value_width)
                for start, stop in self.key_bounds(*half, self.key_tile):
                    scores = self.scores(query[..., first:last, :], key[..., start:stop, :], asked.factor)
                    scores = self.tile_mask(scores, asked, (first, last), (start, stop))
                    kept = 1.0 if keep is None else keep[..., first:last, start:stop]
                    part = self.step(part, Tile(scores, value[..., start:stop, :], kept))
                parts.append(part)
            rows.append(self.normalise(self.merge(parts)))
        return torch.cat(rows, dim=-2).to(asked.query.dtype)

    def step(self, before: Partial, tile: Tile) -> Partial:
        largest = self.running_largest(before.largest, tile.scores)
        return self.accumulate(self.rescale(before, largest), tile)

    @staticmethod
    def query_bounds(count: int, tile: int) -> list[tuple[int, int]]:
        return tiles(0, count, tile)

    @staticmethod
    def halves(count: int) -> list[tuple[int, int]]:
        return [(0, count // 2), (count // 2, count)]

    @staticmethod
    def key_bounds(start: int, stop: int, tile: int) -> list[tuple[int, int]]:
        return tiles(start, stop, tile)

    @staticmethod
    def begin(query: Tensor, value_width: int) -> Partial:
        zeros = query.new_zeros(*query.shape[:-1], 1)
        return Partial(zeros.repeat(*[1] * (zeros.dim() - 1), value_width), zeros, torch.full_like(zeros, -math.inf))

    @staticmethod
    def scores(query: Tensor, key: Tensor, factor: float) -> Tensor:
        return Dense.scores(query, key, factor)

    @staticmethod
    def tile_mask(scores: Tensor, asked: Asked, rows: tuple[int, int], keys: tuple[int, int]) -> Tensor:
        if asked.is_causal:
            scores = scores.masked_fill(~lower_triangle(scores, rows[0] - keys[0]), -math.inf)
        if asked.mask is None:
            return scores
        part = asked.mask.expand(asked.scores_shape)[..., rows[0] : rows[1], keys[0] : keys[1]]
        add = Dense.bool_mask if part.dtype == torch.bool else Dense.float_mask
        return add(scores, part, asked)

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

    @staticmethod
    def normalise(part: Partial) -> Tensor:
        return part.output / part.total.masked_fill(part.total == 0, 1.0)


def tiles(start: int, stop: int, tile: int) -> list[tuple[int, int]]:
    """Cut into tiles; nothing at all is one empty tile, so that the answer still hangs on its inputs."""
    return [(first, min(first + tile, stop)) for first in range(start, stop, tile)] or [(start, start)]


def shift(scores: Tensor, largest: Tensor) -> Tensor:
    """Scores minus the largest, where −inf minus −inf is −inf."""
    return scores - largest.masked_fill(largest == -math.inf, 0.0)
