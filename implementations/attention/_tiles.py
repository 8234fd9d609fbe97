"""The score matrix of chunked attention, cut into tiles of queries and keys."""

import math
from collections.abc import Iterable
from itertools import chain, pairwise, product, repeat, starmap
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnsuite.implementations.attention._chunks import Chunks, lanes_of, wide_dtype

# Powers are taken of 2, because on a CPU torch.exp2 is several times as fast as torch.exp: scores are made in units of
# ln 2.
LOG2_E = math.log2(math.e)


class Settings(NamedTuple):
    dropout_p: float
    left: int | None
    right: int | None
    """Query i sees keys i − left to i + right; None is unbounded. Causal attention sees none to the right."""
    scale: float
    softcap: float | None
    seed: int
    looks_ahead: bool
    """Whether the control flow may depend on numbers."""
    chunks: Chunks

    @property
    def is_plain(self) -> bool:
        """Whether no score is hidden or capped."""
        return self.sees_all and self.softcap is None

    @property
    def sees_all(self) -> bool:
        return self.left is None and self.right is None


class Block(NamedTuple):
    """The queries of one tile, as an index of b g r l x: batch items, key heads, all of their query heads, and rows."""

    batches: slice
    heads: slice
    group: slice
    rows: slice


class Part(NamedTuple):
    """The keys of a tile, and the memory for its scores."""

    columns: slice
    keys: Tensor  # p k e
    values: Tensor  # p k v
    scores: Tensor  # p n k
    diagonals: list[tuple[int, bool]]
    """The diagonals of the tile that bound hidden keys, and whether the keys above them are hidden, or those below."""
    beta: int
    """0 for the first part, whose sums start, and 1 for the others."""


class Tiles:
    """The score matrix cut into tiles, each computed when it is needed, and with the same numbers each time.

    Axes: b batch, g key heads, r query heads per key head, l queries, s keys, e width, v value width; within a tile
    p pairs of batch item and key head, n rows (query heads times queries), k keys. Where a tile has one pair only, its
    rows are divided among the threads like pairs: a batch of products uses several cores better than one product.
    """

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        sinks: Tensor | None,
        settings: Settings,
        step: int,
    ) -> None:
        self.settings, self.step, self.wide = settings, step, wide_dtype(query.dtype)
        self.narrow = self.wide != query.dtype
        self.query, self.key, self.value = grouped(query, key), _four_axes(key), _four_axes(value)
        self.mask = None  # b g r l s, of size 1 along the axes where it broadcasts
        if mask is not None:
            self.mask = grouped(mask, key) if _four_axes(mask).shape[1] > 1 else _four_axes(mask).unsqueeze(2)
        self.sinks = None  # b g r l 1, in units of ln 2
        if sinks is not None:
            heads = (sinks.to(self.wide) * LOG2_E).view(*self.query.shape[1:3], 1, 1)
            self.sinks = heads.expand(*self.query.shape[:-1], 1)
        self.lanes = lanes_of(query.device)
        self.random = torch.Generator(query.device).manual_seed(settings.seed) if settings.dropout_p > 0 else None
        self.growth = 1 / (1 - settings.dropout_p) if settings.dropout_p < 1 else 0.0  # of the weights that are kept
        self.factor = settings.scale * LOG2_E if settings.softcap is None else settings.scale / settings.softcap
        self._buffers: dict[str, Tensor] = {}
        self._views: dict[tuple[str, tuple[int, ...]], Tensor] = {}
        self._last_triangle: tuple[Any, Tensor] = None, self.query
        self._last_parts: tuple[Any, list[Part]] = None, []

    def blocks(self) -> Iterable[Block]:
        batches, heads, _, length, _ = self.query.shape
        chunks = self.settings.chunks
        in_batches, in_heads = _slices(batches, chunks.batches), _slices(heads, chunks.heads)
        return starmap(Block, product(in_batches, in_heads, [slice(None)], _slices(length, chunks.queries)))

    def parts(self, block: Block, rows: Tensor) -> Iterable[Part]:
        """The keys that any query of the block may see, in parts; lanes repeat those of one pair as a view."""
        pairs, height, _ = rows.shape
        place = block.batches, block.heads, pairs, height, None if self.settings.sees_all else block.rows
        if place != self._last_parts[0]:
            parts = self._parts(block, pairs, height)
            if self.narrow:
                return parts  # widened one by one, since widening copies
            self._last_parts = place, [*parts]  # for the next block, too
        return self._last_parts[1]

    def _parts(self, block: Block, pairs: int, height: int) -> Iterable[Part]:
        columns = self.columns(block.rows)
        if not columns:
            return ()
        seen = slice(columns[0].start, columns[-1].stop)
        widths = [part.stop - part.start for part in columns]
        heads = (
            self.heads(tensor, block, seen).expand(pairs, -1, -1).split(widths, 1) for tensor in (self.key, self.value)
        )
        keys, values = ((part.to(self.wide) for part in parts) for parts in heads) if self.narrow else heads
        scores = (self.scratch("scores", (pairs, height, width)) for width in widths)
        diagonals = (self._diagonals(block.rows, part) for part in columns)
        return map(Part, columns, keys, values, scores, diagonals, chain([0], repeat(1)))

    def _diagonals(self, rows: slice, columns: slice) -> list[tuple[int, bool]]:
        left, right = self.settings.left, self.settings.right
        diagonals = []
        if right is not None and columns.stop > rows.start + right + 1:
            diagonals.append((rows.start + right + 1 - columns.start, True))
        if left is not None and columns.start < rows.stop - 1 - left:
            diagonals.append((rows.start - left - 1 - columns.start, False))
        return diagonals

    def columns(self, rows: slice) -> list[slice]:
        """The ranges of keys that any of these queries may see, cut where some of them begin or cease to see."""
        length, left, right = self.key.shape[2], self.settings.left, self.settings.right
        first = 0 if left is None else rows.start - left
        last = length if right is None else rows.stop + right
        cut = length if right is None else rows.start + right
        edges = [min(length, max(0, edge)) for edge in (first, max(first, cut), last)]
        return [
            slice(start + part.start, start + part.stop)
            for start, stop in pairwise(edges)
            for part in _slices(stop - start, self.step)
        ]

    def scores(self, block: Block, queries: Tensor, part: Part, slope: Tensor | None = None) -> Tensor:
        """The capped and masked scores of one tile, p n k, in units of ln 2; `slope` gets the derivative of the cap."""
        cap = self.settings.softcap
        part.scores.baddbmm_(queries, part.keys.mT, beta=0, alpha=self.factor)
        if cap is not None:
            tanh = part.scores.tanh_()
            if slope is not None:
                torch.mul(tanh, tanh, out=slope).neg_().add_(1)
            tanh.mul_(cap * LOG2_E)
        if part.diagonals or self.mask is not None:
            self._hide(block, part)
        return part.scores

    def sink_powers(self, block: Block, shift: Tensor | None = None) -> Tensor:
        """2 to the power of each row's sink − shift, p n 1."""
        assert self.sinks is not None
        sinks = self.rows(self.sinks[block])
        return (sinks if shift is None else sinks - shift).exp2()

    def _hide(self, block: Block, part: Part) -> None:
        """Hide keys beyond diagonals and those that a boolean mask hides; add a float mask."""
        scores = self.five_axes(part.scores, block)
        for diagonal, above in part.diagonals:
            scores.masked_fill_(self._triangle(scores, diagonal, above), -math.inf)
        if self.mask is None:
            return
        mask = self.mask_part(self.mask, block, part.columns)
        if mask.dtype == torch.bool:
            scores.masked_fill_(~mask, -math.inf)
        else:
            scores.add_(mask, alpha=LOG2_E)

    def _triangle(self, scores: Tensor, diagonal: int, above: bool) -> Tensor:
        """True on the diagonal of a tile and above it, or below, l s: mostly the same as for the tile before."""
        key = (*scores.shape[-2:], diagonal, above)
        if key != self._last_triangle[0]:
            ones = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
            self._last_triangle = key, ones.triu_(diagonal) if above else ones.tril_(diagonal)
        return self._last_triangle[1]

    def kept(self, tile: Tensor) -> Tensor | None:
        """One where dropout keeps a weight, else zero; every pass over the tiles draws the same numbers."""
        if self.random is None:
            return None
        draws = torch.rand(tile.shape, generator=self.random, out=self.scratch("kept", tile.shape))
        return draws.ge_(self.settings.dropout_p)

    def scratch(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """A tile to be written to: the same memory for each tile of a name."""
        if (name, shape) not in self._views:
            if name not in self._buffers:
                batches, heads, queries, *_ = self.settings.chunks
                cells = batches * heads * self.query.shape[2] * queries * self.step
                self._buffers[name] = self.query.new_empty(cells, dtype=self.wide)
            self._views[name, shape] = self._buffers[name][: math.prod(shape)].view(shape)
        return self._views[name, shape]

    def rows(self, part: Tensor) -> Tensor:
        """Rows b g r l x as p n x, wide; a view where the dtype is wide and strides allow."""
        rows = in_pairs(part)
        pairs, height, width = rows.shape
        if pairs == 1 and self.lanes > 1 and height % self.lanes == 0:
            rows = rows.view(self.lanes, height // self.lanes, width)
        return rows.to(self.wide) if self.narrow else rows

    def heads(self, tensor: Tensor, block: Block, columns: slice = slice(None)) -> Tensor:
        """The block's heads of a tensor b g s x, as p s x; a view if there is one pair or the tensor is contiguous."""
        return tensor[block.batches, block.heads, columns].flatten(0, 1)

    def mask_part(self, mask: Tensor, block: Block, columns: slice) -> Tensor:
        """The part of the mask on a tile, b g r l s, without expanding the axes along which it broadcasts."""
        ranges = (block.batches, block.heads, slice(None), block.rows, columns)
        return mask[tuple(part if size > 1 else slice(None) for part, size in zip(ranges, mask.shape, strict=True))]

    def five_axes(self, tile: Tensor, block: Block) -> Tensor:
        """A tile p n k as b g r l s."""
        batches, heads, rows = (part.stop - part.start for part in (block.batches, block.heads, block.rows))
        return tile.view(batches, heads, -1, rows, tile.shape[-1])


def in_pairs(tensor: Tensor) -> Tensor:
    """A tensor b g r l x as p n x, a view where strides allow."""
    batches, heads, group, length, width = tensor.shape
    return tensor.reshape(batches * heads, group * length, width)


def _four_axes(tensor: Tensor) -> Tensor:
    return tensor[(None,) * (4 - tensor.dim())]


def grouped(tensor: Tensor, key: Tensor) -> Tensor:
    """b h l x as b g r l x, a view: query head g·r + r reads key head g."""
    key_heads = _four_axes(key).shape[1]
    batch, heads, *rest = _four_axes(tensor).shape
    return tensor.view(batch, key_heads, heads // max(1, key_heads), *rest)


def _slices(length: int, step: int) -> list[slice]:
    return [slice(start, min(length, start + step)) for start in range(0, length, step)]
