"""Attention in chunks of queries and keys with an online softmax, so that memory does not grow with their product.

Rabe and Staats, "Self-attention does not need O(n²) memory" (arXiv 2112.05682); the softmax is carried from chunk to
chunk as Milakov and Gimelshein do (arXiv 1805.02867), and the backward computes every weight a second time instead of
storing it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from itertools import product, starmap
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from suite import implementation

# Powers are taken of 2, because on a CPU torch.exp2 is several times as fast as torch.exp: scores are made in units of
# ln 2.
LOG2_E = math.log2(math.e)
# Sums of powers that lie in between have lost nothing: no power overflowed, and none that counts fell to zero.
FAITHFUL = 1.0, 2.0**40


@implementation(conventions={"repeated_calls": "equal_bits"})
def attention(
    query: Tensor,  # ... h l e
    key: Tensor,  # ... g s e
    value: Tensor,  # ... g s v
    *,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    window: tuple[int | None, int | None] | None = None,
) -> Tensor:
    """Return dropout(softmax(scale · query keyᵀ + mask)) value, of shape ... h l v and the query's dtype.

    Query i sees keys i − left to i + right of a window, both included; tiles that it hides are skipped. Raises
    ValueError, before any work, for inputs that the formula does not define.
    """
    _reject(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    _reject_window(window)
    seed = int(torch.randint(2**62, ())) if dropout_p > 0 else 0
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    left, right = _bounds(is_causal, window)
    settings = _Settings(dropout_p, left, right, scale, seed, _chunks(query, key, value, right == 0))
    output: Tensor = _Attention.apply(query, key, value, attn_mask, settings)
    return output


class _Chunks(NamedTuple):
    """The largest tile: its batch items, its key heads, its queries of each head, and its keys."""

    batches: int
    heads: int
    queries: int
    keys: int


class _Settings(NamedTuple):
    dropout_p: float
    left: int | None
    right: int | None
    """Query i sees keys i − left to i + right; None is unbounded. Causal attention sees none to the right."""
    scale: float
    seed: int
    chunks: _Chunks


class _Block(NamedTuple):
    """The queries of one tile: a range of batch items, of key heads, and of rows in each query head."""

    batches: slice
    heads: slice
    rows: slice


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, settings: _Settings
    ) -> Tensor:
        tiles = _Tiles(query, key, value, attn_mask, settings)
        output = query.new_empty((*query.shape[:-1], value.shape[-1]))
        grouped_output = _grouped(output, key)  # b g r l v
        all_largest = grouped_output.new_empty((*grouped_output.shape[:-1], 1), dtype=tiles.wide)  # b g r l 1
        all_totals = torch.empty_like(all_largest)
        buffer, keep_buffer = tiles.buffer(), tiles.buffer() if settings.dropout_p > 0 else None
        plain = tiles.looks_ahead and settings.dropout_p == 0  # what is done over would draw other numbers

        for block in tiles.query_blocks():
            queries = tiles.rows_of(block, tiles.query) * (settings.scale * LOG2_E)  # p n e
            keys, values = tiles.heads_of(block, tiles.key), tiles.heads_of(block, tiles.value)  # p s e|v
            for shifted in (False, True) if plain else (True,):  # mostly scores are small enough as they are
                # Not −inf: where nothing has been seen yet, −inf − −inf would be NaN.
                least = torch.finfo(tiles.wide).min if shifted else 0.0
                largest = queries.new_full((*queries.shape[:2], 1), least)  # p n 1
                total = torch.zeros_like(largest)
                mixture = queries.new_zeros((*queries.shape[:2], value.shape[-1]))  # p n v
                for columns, key_part, value_part in tiles.key_blocks(block, queries, keys, values):
                    scores = tiles.scores(block, columns, queries, key_part, buffer)  # p n k
                    if shifted:
                        before, largest = largest, torch.maximum(largest, scores.amax(dim=-1, keepdim=True))
                        shrink = _powers(before, largest)
                        total *= shrink
                        mixture *= shrink
                    powers = _powers(scores, largest) if shifted else scores.exp2_()
                    total += powers.sum(dim=-1, keepdim=True)
                    if keep_buffer is not None:
                        powers *= tiles.kept(powers.shape, keep_buffer)
                    mixture.baddbmm_(powers, value_part)
                if shifted or _are_faithful(total, mixture):
                    break
                plain = False  # what one block needs, others will
            mixture *= _reciprocal(total * (1 - settings.dropout_p))
            for whole, part in ((grouped_output, mixture), (all_largest, largest), (all_totals, total)):
                target = whole[block.batches, block.heads, :, block.rows]
                target.copy_(part.view(target.shape))

        ctx.save_for_backward(query, key, value, attn_mask, output, all_largest, all_totals)
        ctx.settings = settings
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, output_gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, attn_mask, output, all_largest, all_totals = ctx.saved_tensors
        settings: _Settings = ctx.settings
        tiles, dropout_p = _Tiles(query, key, value, attn_mask, settings), settings.dropout_p
        needs_query, needs_key, needs_value, needs_mask, *_ = ctx.needs_input_grad
        d_query = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        d_key = torch.zeros(tiles.key.shape, dtype=tiles.wide, device=query.device)  # b g s e
        d_value = torch.zeros(tiles.value.shape, dtype=tiles.wide, device=query.device)  # b g s v
        d_mask = torch.zeros(tiles.mask.shape, dtype=tiles.wide, device=query.device) if needs_mask else None
        buffer, d_buffer, keep_buffer = tiles.buffer(), tiles.buffer(), tiles.buffer() if dropout_p > 0 else None

        for block in tiles.query_blocks():
            queries = tiles.rows_of(block, tiles.query) * (settings.scale * LOG2_E)  # p n e
            largest, total = tiles.rows_of(block, all_largest), tiles.rows_of(block, all_totals)  # p n 1
            # The weights stay unnormalised; the upstream gradient is divided by their sum instead: rows, not tiles.
            upstream = tiles.rows_of(block, _grouped(output_gradient, key)) * _reciprocal(total)  # p n v
            mean = (upstream * tiles.rows_of(block, _grouped(output, key))).sum(dim=-1, keepdim=True)  # p n 1
            upstream *= _reciprocal(torch.tensor(1 - dropout_p, dtype=tiles.wide))
            shifted = not tiles.looks_ahead or bool(largest.any())
            d_queries = torch.zeros_like(queries)
            keys, values = tiles.heads_of(block, tiles.key), tiles.heads_of(block, tiles.value)  # p s e|v
            d_keys, d_values = tiles.heads_of(block, d_key), tiles.heads_of(block, d_value)  # p s e|v
            for columns, key_part, value_part in tiles.key_blocks(block, queries, keys, values):
                scores = tiles.scores(block, columns, queries, key_part, buffer)  # p n k
                powers = _powers(scores, largest) if shifted else scores.exp2_()
                keep = None if keep_buffer is None else tiles.kept(powers.shape, keep_buffer)
                if needs_query or needs_key or needs_mask:
                    d_scores = d_buffer[: powers.numel()].view(powers.shape)
                    torch.bmm(upstream, value_part.mT, out=d_scores)
                    if keep is not None:
                        d_scores *= keep
                    d_scores.sub_(mean).mul_(powers)
                    if needs_query:
                        d_queries.baddbmm_(d_scores, key_part)
                    if needs_key:
                        tiles.gather(d_keys, columns, d_scores, queries)
                    if d_mask is not None:
                        part = tiles.mask_part(d_mask, block, columns)
                        part += tiles.five_axes(d_scores, block).sum_to_size(part.shape)
                if needs_value:
                    if keep is not None:
                        powers *= keep
                    tiles.gather(d_values, columns, powers, upstream)
            target = _grouped(d_query, key)[block.batches, block.heads, :, block.rows]
            target.copy_(d_queries.mul_(settings.scale).view(target.shape))

        return (
            d_query if needs_query else None,
            d_key.div_(LOG2_E).view(key.shape).to(key.dtype) if needs_key else None,
            d_value.view(value.shape).to(value.dtype) if needs_value else None,
            d_mask.view(attn_mask.shape).to(attn_mask.dtype) if d_mask is not None else None,
            None,
        )


class _Tiles:
    """The score matrix cut into tiles, each computed when it is needed, and with the same numbers each time.

    Axes: b batch, g key heads, r query heads per key head, l queries, s keys, e width, v value width; within a tile
    p pairs of batch item and key head, n rows (query heads times queries), k keys. Where a tile has one pair only, its
    rows are dealt out among the threads as if they were pairs: a batch of products uses several cores better than one
    product does.
    """

    def __init__(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, settings: _Settings) -> None:
        self.settings, self.wide = settings, _wide(query.dtype)
        self.query, self.key, self.value = _grouped(query, key), _four_axes(key), _four_axes(value)
        self.mask = None  # b g r l s, of size 1 along the axes where it broadcasts
        if mask is not None:
            self.mask = _grouped(mask, key) if _four_axes(mask).shape[1] > 1 else _four_axes(mask).unsqueeze(2)
        self.lanes = _lanes(query.device)
        self.looks_ahead = query.device.type == "cpu"  # what is decided by numbers has to wait for a GPU
        self.random = torch.Generator(query.device).manual_seed(settings.seed) if settings.dropout_p > 0 else None

    def query_blocks(self) -> Iterable[_Block]:
        sizes = (*self.query.shape[:2], self.query.shape[3])
        return starmap(_Block, product(*map(_slices, sizes, self.settings.chunks)))

    def key_blocks(
        self, block: _Block, rows: Tensor, keys: Tensor, values: Tensor
    ) -> Iterable[tuple[slice, Tensor, Tensor]]:
        """The ranges of keys that any query of the block may see, with what they are of tensors p s x, as p k x.

        One pair's keys are repeated, as a view, for every lane of its rows p n x.
        """
        length, step, own, settings = self.key.shape[2], self.settings.chunks.keys, block.rows, self.settings
        first = 0 if settings.left is None else min(length, max(0, own.start - settings.left))
        last = length if settings.right is None else min(length, own.stop + settings.right)
        parts = (heads[:, first:last].expand(rows.shape[0], -1, -1).split(step, dim=1) for heads in (keys, values))
        # Not strict: of no keys there is no slice, but split makes one part.
        for columns, key_part, value_part in zip(_slices(last - first, step), *parts, strict=False):
            moved = slice(columns.start + first, columns.stop + first)
            yield moved, key_part.to(self.wide), value_part.to(self.wide)

    def scores(self, block: _Block, columns: slice, queries: Tensor, part: Tensor, buffer: Tensor) -> Tensor:
        """The masked scores of one tile in units of ln 2, written into the buffer."""
        shape = (*queries.shape[:2], part.shape[1])
        scores = torch.bmm(queries, part.mT, out=buffer[: math.prod(shape)].view(shape))  # p n k
        left, right, rows = self.settings.left, self.settings.right, block.rows
        if right is not None and columns.stop > rows.start + right + 1:
            by_head = self.five_axes(scores, block)
            ones = torch.ones(by_head.shape[-2:], dtype=torch.bool, device=scores.device)
            by_head.masked_fill_(ones.triu_(rows.start + right - columns.start + 1), -math.inf)
        if left is not None and columns.start < rows.stop - 1 - left:
            by_head = self.five_axes(scores, block)
            ones = torch.ones(by_head.shape[-2:], dtype=torch.bool, device=scores.device)
            by_head.masked_fill_(ones.tril_(rows.start - left - columns.start - 1), -math.inf)
        if self.mask is not None:
            mask = self.mask_part(self.mask, block, columns)
            if mask.dtype == torch.bool:
                self.five_axes(scores, block).masked_fill_(~mask, -math.inf)
            else:
                self.five_axes(scores, block).add_(mask, alpha=LOG2_E)
        return scores

    def kept(self, shape: torch.Size, buffer: Tensor) -> Tensor:
        """One where dropout keeps a weight, else zero; every pass over the tiles draws the same numbers."""
        draws = torch.rand(shape, generator=self.random, out=buffer[: shape.numel()].view(shape))
        return draws.ge_(self.settings.dropout_p)

    def buffer(self) -> Tensor:
        group = self.query.shape[2]
        return torch.empty(math.prod(self.settings.chunks) * group, dtype=self.wide, device=self.query.device)

    def rows_of(self, block: _Block, tensor: Tensor) -> Tensor:
        """The block's rows of a tensor b g r l x, as p n x."""
        rows = tensor[block.batches, block.heads, :, block.rows].to(self.wide).flatten(2, 3).flatten(0, 1)
        lanes = self.lanes if rows.shape[0] == 1 and rows.shape[1] % self.lanes == 0 else 1
        return rows.unflatten(1, (lanes, -1)).flatten(0, 1)

    def heads_of(self, block: _Block, tensor: Tensor) -> Tensor:
        """The block's heads of a tensor b g s x, as p s x; a view if there is one pair or the tensor is contiguous."""
        return tensor[block.batches, block.heads].flatten(0, 1)

    def gather(self, heads: Tensor, columns: slice, tile: Tensor, rows: Tensor) -> None:
        """Add tileᵀ rows, p k x, to the keys named of a tensor p s x; where that has one pair, the sum of all lanes."""
        if heads.shape[0] == tile.shape[0]:
            heads[:, columns].baddbmm_(tile.mT, rows)
        else:
            heads[:, columns] += (tile.mT @ rows).sum(0, keepdim=True)

    def mask_part(self, mask: Tensor, block: _Block, columns: slice) -> Tensor:
        """What of the mask falls on a tile, b g r l s, without expanding the axes along which it broadcasts."""
        ranges = (block.batches, block.heads, slice(None), block.rows, columns)
        return mask[tuple(part if size > 1 else slice(None) for part, size in zip(ranges, mask.shape, strict=True))]

    def five_axes(self, tile: Tensor, block: _Block) -> Tensor:
        """A tile p n k as b g r l s."""
        batches, heads, rows = (part.stop - part.start for part in block)
        return tile.view(batches, heads, -1, rows, tile.shape[-1])


def _bounds(is_causal: bool, window: tuple[int | None, int | None] | None) -> tuple[int | None, int | None]:
    """How far a query sees to the left and to the right; causal attention sees nothing on the right."""
    left, right = window or (None, None)
    return left, 0 if is_causal else right


def _reject_window(window: tuple[int | None, int | None] | None) -> None:
    if window is not None and (len(window) != 2 or any(width is not None and width < 0 for width in window)):
        raise ValueError(f"window must be a pair of widths, each None or at least 0, not {window}")


def _chunks(query: Tensor, key: Tensor, value: Tensor, is_causal: bool) -> _Chunks:
    """Choose chunks so that the scores of a tile, over which several passes go, stay in half the caches at work.

    Measured on a CPU: each core's share of a tile is best four times as high as wide, for fewer and larger products,
    and four times as wide as high where it is causal, because every query of a block is given all keys that its last
    one sees. Where there are few queries a tile takes more keys, or the reverse; where there are few of both, several
    heads and batch items. What half types are widened to counts as well, because it is a copy.
    """
    batch, key_heads, group, length, width = _grouped(query, key).shape
    wide = _wide(query.dtype)
    cells = _tile_bytes(query.device) // wide.itemsize
    operands = 0 if wide == query.dtype else width + value.shape[-1]
    lanes = _lanes(query.device)
    side = math.isqrt(cells * lanes)
    rows = max(1, min(group * length, side // 2 if is_causal else side * 2))
    keys = max(1, min(key.shape[-2], cells // (rows + operands)))
    keys -= keys % 64 if 64 < keys < key.shape[-2] else 0
    rows = max(group, min(group * length, cells // (keys + operands)))
    rows -= rows % lanes if lanes < rows < group * length else 0
    pairs = max(1, cells // (rows * keys + (rows + keys) * operands))
    heads = math.ceil(key_heads / math.ceil(key_heads / pairs)) if key_heads else 1  # evenly
    return _Chunks(
        max(1, min(batch, pairs // heads)) if heads == key_heads else 1, heads, max(1, rows // max(1, group)), keys
    )


def _lanes(device: torch.device) -> int:
    """The number of cores that PyTorch uses; 1 on a GPU, which spreads a product over its cores by itself."""
    return torch.get_num_threads() if device.type == "cpu" else 1


def _tile_bytes(device: torch.device) -> int:
    """Half the level-2 caches of the cores that PyTorch uses, or twice that of a GPU, to which each step costs more."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size) * 2
    return _core_cache_bytes() * _lanes(device) // 2


@cache
def _core_cache_bytes() -> int:
    """Bytes of the level-2 cache of a core; 1 MiB if the system does not say."""
    try:
        size = Path("/sys/devices/system/cpu/cpu0/cache/index2/size").read_text().strip()  # such as 2048K
        return int(size[:-1]) * {"K": 2**10, "M": 2**20}[size[-1]]
    except (OSError, ValueError, LookupError):
        return 2**20


def _powers(scores: Tensor, largest: Tensor) -> Tensor:
    """2 to the power of scores − largest, in place."""
    return scores.sub_(largest).exp2_()


def _are_faithful(total: Tensor, mixture: Tensor) -> bool:
    least, largest = total.aminmax()
    return bool(least >= FAITHFUL[0]) and bool(largest <= FAITHFUL[1]) and math.isfinite(mixture.sum())


def _reciprocal(total: Tensor) -> Tensor:
    """1/total, and 0 if the total is 0: for an empty row, or one whose weights are all dropped."""
    return torch.where(total == 0, 0.0, 1 / total)


def _wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype that sums are taken in: float32 for half types."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def _four_axes(tensor: Tensor) -> Tensor:
    return tensor[(None,) * (4 - tensor.dim())]


def _grouped(tensor: Tensor, key: Tensor) -> Tensor:
    """b h l x as b g r l x, a view: query head g·r + r reads key head g."""
    key_heads = _four_axes(key).shape[1]
    batch, heads, *rest = _four_axes(tensor).shape
    return tensor.view(batch, key_heads, heads // max(1, key_heads), *rest)


def _slices(length: int, step: int) -> list[slice]:
    return [slice(start, min(length, start + step)) for start in range(0, length, step)]


def _reject(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float, is_causal: bool, gqa: bool
) -> None:
    """Raise ValueError, saying what came, for inputs that the formula does not define."""

    def demand(holds: bool, what: str) -> None:
        if not holds:
            shapes = f"query {[*query.shape]}, key {[*key.shape]}, value {[*value.shape]}"
            raise ValueError(f"{what}: {query.dtype}, {shapes}")

    demand(query.dim() in (2, 3, 4) and query.dim() == key.dim() == value.dim(), "ranks are not all 2, 3 or 4")
    demand(query.is_floating_point() and query.dtype == key.dtype == value.dtype, "not all are of one float dtype")
    lead, key_lead, value_lead = query.shape[:-2], key.shape[:-2], value.shape[:-2]
    demand(query.shape[-1] == key.shape[-1], "query and key differ in width")
    demand(key.shape[-2] == value.shape[-2], "key and value differ in length")
    demand(key_lead == value_lead, "key and value differ in heads or leading axes")
    demand(lead[:-1] == key_lead[:-1], "query and key differ in leading axes")
    demand(lead == key_lead or gqa, "query and key differ in heads, which needs enable_gqa")
    divides = lead == key_lead or (key_lead[-1] > 0 and lead[-1] % key_lead[-1] == 0)
    demand(divides, "query heads do not divide among key heads")
    demand(0 <= dropout_p <= 1, f"dropout_p {dropout_p} is outside [0, 1]")
    if mask is not None:
        demand(not is_causal, "attn_mask and is_causal together are undefined")
        demand(
            mask.dtype in (torch.bool, query.dtype), f"attn_mask is {mask.dtype}, neither bool nor the query's dtype"
        )
        due = [*lead, query.shape[-2], key.shape[-2]]
        sizes = zip(reversed(mask.shape), reversed(due), strict=False)
        fits = mask.dim() <= len(due) and all(size in (1, wanted) for size, wanted in sizes)
        demand(fits, f"attn_mask {[*mask.shape]} does not broadcast to {due}")
