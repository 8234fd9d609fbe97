"""Attention in chunks of queries and keys with an online softmax, so that memory does not grow with their product.

Rabe and Staats, "Self-attention does not need O(n²) memory" (arXiv 2112.05682). The softmax is carried from chunk to
chunk (Milakov and Gimelshein, arXiv 1805.02867). The backward computes every weight again instead of storing it.

Time compared with PyTorch's flash kernel on one thread of a Xeon with AVX-512: 1.2 times as long at ViT-B/16 and
1,024 keys, 1.1 at 4,096, 1.03 at 16,384. With gradients it is 1.35 at ViT-B/16 and 1.2 at 1,024 and 4,096 keys; in
decoding 1.25 at 1,024 keys and 1.04 at 8,192. This is processor time, the least of many alternating calls, on a machine
with other work. The products, powers and sums of all tiles take 1.1 times as long at 1,024 keys without any of the
code here: powers and sums, a fifth of the time, are passes over a tile that the kernel makes within its products. The
rest is 80 µs a call and 11 µs a tile. Taller, wider, larger and smaller tiles were slower.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from attnsuite import implementation
from attnsuite.implementations.attention._checks import check_inputs
from attnsuite.implementations.attention._chunks import chosen, lanes_of, wide_dtype
from attnsuite.implementations.attention._tiles import LOG2_E, Settings, Tiles, grouped, in_pairs

# Sums of powers between these are accurate: no power overflowed, and no relevant one became zero.
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
    softcap: float | None = None,
    sinks: Tensor | None = None,  # h
    return_lse: bool = False,
) -> Any:
    """Return dropout(softmax(scale · query keyᵀ + mask)) value, of shape ... h l v and the query's dtype.

    Query i sees keys i − left to i + right of a window, both included; tiles that it hides are skipped. A soft cap
    bounds the scaled scores. A sink adds its exponential to the sum of its head's. With `return_lse` the log-sum-exp,
    ... h l, is returned after the output. Raises ValueError, before any work, for inputs that the formula does not
    define.
    """
    check_inputs(query, key, value, attn_mask, dropout_p, enable_gqa, window, softcap, sinks)
    seed = int(torch.randint(2**62, ())) if dropout_p > 0 else 0
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    left, right = _bounds(is_causal, window)
    bounded = (left, right) != (None, None)
    lanes = lanes_of(query.device)
    chunks = chosen(query.shape, key.shape, value.shape, query.dtype, query.device, lanes, bounded, dropout_p > 0)
    # On a GPU this would synchronise; with dropout a repeated pass would draw other numbers.
    looks_ahead = query.device.type == "cpu" and dropout_p == 0
    settings = Settings(dropout_p, left, right, scale, softcap, seed, looks_ahead, chunks)
    inputs = query, key, value, attn_mask, sinks
    learns = torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in inputs)
    if learns:
        return _Attention.apply(*inputs, settings, return_lse)  # type: ignore[no-untyped-call]  # so is PyTorch's
    output, totals, shifts = _forward(*inputs, settings)
    return (output, _log_sum_exp(query, totals, shifts)) if return_lse else output


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Any:
        *inputs, ctx.settings, return_lse = arguments
        output, totals, shifts = _forward(*inputs, ctx.settings)
        ctx.save_for_backward(*inputs, output, totals, shifts)
        return (output, _log_sum_exp(inputs[0], totals, shifts)) if return_lse else output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, output_gradient: Tensor, lse_gradient: Tensor | None = None) -> tuple[Tensor | None, ...]:
        query, key, value, attn_mask, sinks, output, totals, shifts = ctx.saved_tensors
        settings: Settings = ctx.settings
        tiles = Tiles(query, key, value, attn_mask, sinks, settings, settings.chunks.backward_keys)
        needs_query, needs_key, needs_value, needs_mask, needs_sinks, *_ = ctx.needs_input_grad
        d_query = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        d_key = torch.zeros(tiles.key.shape, dtype=tiles.wide, device=query.device)  # b g s e
        d_value = torch.zeros(tiles.value.shape, dtype=tiles.wide, device=query.device)  # b g s v
        d_mask = torch.zeros_like(tiles.mask, dtype=tiles.wide) if needs_mask and tiles.mask is not None else None
        d_sinks = None if tiles.sinks is None else tiles.sinks.new_zeros(tiles.sinks.shape[1:3])  # g r
        d_lse = None if lse_gradient is None else grouped(lse_gradient[..., None], key)  # b g r l 1
        by_group = [grouped(tensor, key) for tensor in (d_query, output, output_gradient)]  # b g r l e|v

        for block in tiles.blocks():
            queries, share = tiles.rows(tiles.query[block]), _reciprocal(tiles.rows(totals[block]))  # p n e|1
            shift = None if shifts is None else tiles.rows(shifts[block])  # p n 1
            d_queries, outputs, upstream = (tiles.rows(tensor[block]) for tensor in by_group)  # p n e|v
            # The weights stay unnormalised; the upstream gradient is divided by their sum instead: rows, not tiles.
            products = upstream * outputs
            mean = products.sum(dim=-1, keepdim=True)  # p n 1
            if d_lse is not None:
                mean.sub_(tiles.rows(d_lse[block]))
            mean.mul_(share)
            if d_sinks is not None and tiles.sinks is not None:
                flow = mean * tiles.sink_powers(block, shift)
                d_sinks[block.heads] -= tiles.five_axes(flow, block).sum((0, 3, 4))
            upstream = torch.mul(upstream, share.mul_(tiles.growth), out=products)
            d_queries.zero_()
            d_keys, d_values = tiles.heads(d_key, block), tiles.heads(d_value, block)  # p s e|v
            for part in tiles.parts(block, queries):
                slope = None if settings.softcap is None else tiles.scratch("slope", part.scores.shape)
                powers = _powers(tiles.scores(block, queries, part, slope), shift)  # p n k
                keep = tiles.kept(powers)
                if needs_query or needs_key or needs_mask:
                    d_scores = torch.bmm(upstream, part.values.mT, out=tiles.scratch("d_scores", powers.shape))
                    if keep is not None:
                        d_scores *= keep
                    d_scores.sub_(mean).mul_(powers)
                    if d_mask is not None:
                        target = tiles.mask_part(d_mask, block, part.columns)
                        target += tiles.five_axes(d_scores, block).sum_to_size(target.shape)
                    if slope is not None:
                        d_scores *= slope
                    if needs_query:
                        d_queries.baddbmm_(d_scores, part.keys, alpha=settings.scale)
                    if needs_key:
                        _gather(d_keys[:, part.columns], d_scores, queries, settings.scale)
                if needs_value:
                    if keep is not None:
                        powers *= keep
                    _gather(d_values[:, part.columns], powers, upstream)
            _put(by_group[0][block], d_queries)

        return (
            d_query if needs_query else None,
            d_key.view(key.shape).to(key.dtype) if needs_key else None,
            d_value.view(value.shape).to(value.dtype) if needs_value else None,
            d_mask.view(attn_mask.shape).to(attn_mask.dtype) if d_mask is not None else None,
            d_sinks.flatten().to(sinks.dtype) if needs_sinks and d_sinks is not None else None,
            *(None, None),
        )


def _forward(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, sinks: Tensor | None, settings: Settings
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The output, and of tensor row b g r l 1 the total of its powers, and the shift of its scores if there is one."""
    if settings.chunks.one and mask is None and sinks is None and settings.is_plain and settings.looks_ahead:
        dense = _dense(query, key, value, settings.scale)
        if dense is not None:
            return *dense, None
    tiles = Tiles(query, key, value, mask, sinks, settings, settings.chunks.keys)
    output = query.new_empty((*query.shape[:-1], value.shape[-1]))
    mixtures = grouped(output, key)  # b g r l v
    totals = mixtures.new_empty((*mixtures.shape[:-1], 1), dtype=tiles.wide)  # b g r l 1
    if settings.looks_ahead and _mix(tiles, mixtures, totals):
        return output, totals, None
    shifts = torch.empty_like(totals)
    _mix_shifted(tiles, mixtures, totals, shifts)
    return output, totals, shifts


def _dense(query: Tensor, key: Tensor, value: Tensor, scale: float) -> tuple[Tensor, Tensor] | None:
    """What `_mix` finds, in few steps, where one tile holds all scores and nothing is hidden."""
    by_group = [grouped(tensor, key) for tensor in (query, key, value)]  # b g r l e|v
    queries, keys, values = (in_pairs(tensor).to(wide_dtype(query.dtype)) for tensor in by_group)  # p n e|v
    scores = queries.new_empty((*queries.shape[:2], keys.shape[1])).baddbmm_(
        queries, keys.mT, beta=0, alpha=scale * LOG2_E
    )
    powers = scores.exp2_()  # p n s
    total, mixture = powers.sum(dim=-1, keepdim=True), torch.bmm(powers, values)
    if not _are_faithful(total, mixture):
        return None
    output = mixture.div_(total).to(query.dtype).view(*query.shape[:-1], value.shape[-1])
    return output, total.view(*by_group[0].shape[:-1], 1)


def _mix(tiles: Tiles, mixtures: Tensor, totals: Tensor) -> bool:
    """Mix the values by powers of scores as they are, and give up where these are not all small enough: False."""
    for block in tiles.blocks():
        targets = mixtures[block], totals[block]
        queries, mixture, total = map(tiles.rows, (tiles.query[block], *targets))  # p n e|v|1
        if tiles.sinks is None:
            total.zero_()
        else:
            total.copy_(tiles.sink_powers(block))
            mixture.zero_()  # of a block that sees no keys
        for part in tiles.parts(block, queries):
            powers = tiles.scores(block, queries, part).exp2_()  # p n k
            total += powers.sum(dim=-1, keepdim=True)
            mixture.baddbmm_(powers, part.values, beta=part.beta)
        if not _are_faithful(total, mixture):
            return False
        _put(targets[0], mixture.div_(total))
        _put(targets[1], total)
    return True


def _mix_shifted(tiles: Tiles, mixtures: Tensor, totals: Tensor, shifts: Tensor) -> None:
    """Mix the values by powers of scores less the largest so far."""
    for block in tiles.blocks():
        queries, mixture = tiles.rows(tiles.query[block]), tiles.rows(mixtures[block])  # p n e|v
        # Not −inf: where nothing has been seen yet, −inf − −inf would be NaN.
        largest = mixture.new_full((*mixture.shape[:2], 1), torch.finfo(tiles.wide).min)  # p n 1
        if tiles.sinks is not None:
            largest = torch.maximum(largest, tiles.rows(tiles.sinks[block]))
        total = torch.zeros_like(largest) if tiles.sinks is None else tiles.sink_powers(block, largest)
        mixture.zero_()
        for part in tiles.parts(block, queries):
            scores = tiles.scores(block, queries, part)  # p n k
            before, largest = largest, torch.maximum(largest, scores.amax(dim=-1, keepdim=True))
            shrink = _powers(before, largest)
            total *= shrink
            mixture *= shrink
            powers = _powers(scores, largest)
            total += powers.sum(dim=-1, keepdim=True)
            keep = tiles.kept(powers)
            if keep is not None:
                powers *= keep
            mixture.baddbmm_(powers, part.values)
        mixture *= _reciprocal(total) * tiles.growth
        for whole, rows in ((mixtures, mixture), (totals, total), (shifts, largest)):
            _put(whole[block], rows)


def _log_sum_exp(query: Tensor, totals: Tensor, shifts: Tensor | None) -> Tensor:
    """The logarithm of the sum of the exponentials, ... h l; −∞ for an empty row."""
    logs = totals.log2() if shifts is None else totals.log2() + shifts
    return (logs / LOG2_E).view(query.shape[:-1])


def _put(target: Tensor, rows: Tensor) -> None:
    """Write rows p n x to where they belong, b g r l x, unless they are a view of it."""
    if rows.data_ptr() != target.data_ptr():
        target.copy_(rows.view(target.shape))


def _gather(target: Tensor, tile: Tensor, rows: Tensor, scale: float = 1.0) -> None:
    """Add scale · tileᵀ rows, p k x, to the target p k x; where that has one pair, the sum over all lanes."""
    if target.shape[0] == tile.shape[0]:
        target.baddbmm_(tile.mT, rows, alpha=scale)
    else:
        target.add_((tile.mT @ rows).sum(0, keepdim=True), alpha=scale)


def _bounds(is_causal: bool, window: tuple[int | None, int | None] | None) -> tuple[int | None, int | None]:
    """How far a query sees to the left and to the right; causal attention sees nothing on the right."""
    left, right = window or (None, None)
    return left, 0 if is_causal else right


def _powers(scores: Tensor, shift: Tensor | None) -> Tensor:
    """2 to the power of scores − shift, in place."""
    return (scores if shift is None else scores.sub_(shift)).exp2_()


def _are_faithful(total: Tensor, mixture: Tensor) -> bool:
    least, largest = total.aminmax()
    return float(least) >= FAITHFUL[0] and float(largest) <= FAITHFUL[1] and math.isfinite(mixture.sum())


def _reciprocal(total: Tensor) -> Tensor:
    """1/total, and 0 if the total is 0: for an empty row, or one whose weights are all dropped."""
    return torch.where(total == 0, 0.0, 1 / total)
