"""Strangers that compute as kernels for accelerators do: padded, tiled, split, in pieces, in any order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import reduce
from itertools import count, pairwise
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from attnsuite.cases import Variant
from attnsuite.contracts.attention.variants.orders import LOG2_E, multiplying, scores_of
from attnsuite.contracts.attention.variants.question import Core, Question, attention

MANY = 2**12
"""Heads of all items together from which tiles are small: filled up to 128, tens of thousands take gigabytes."""
_CALLS = count()


def _tiles(length: int, size: int) -> list[slice]:
    return [slice(start, start + size) for start in range(0, length, size)]


def _shuffled(tiles: list[slice]) -> list[slice]:
    """In another order at each call, as blocks of a kernel come to their sums."""
    return Random(next(_CALLS)).sample(tiles, len(tiles))


def _powers(asked: Question) -> Tensor:
    scores = scores_of(asked)
    return torch.exp(scores - scores.detach().amax(-1, keepdim=True))


def _compensated(asked: Question) -> Tensor:
    """Sums of 8 keys are added up with Kahan's correction, which no gradient enters."""
    powers, tiles = _powers(asked), _tiles(asked.key.shape[-2], 8)
    kept = powers * asked.keep
    output = _kahan(kept[..., tile] @ asked.value[..., tile, :] for tile in tiles)
    return output / _kahan(powers[..., tile].sum(-1, keepdim=True) for tile in tiles)


def _kahan(terms: Iterator[Tensor]) -> Tensor:
    total = next(terms)
    lost = torch.zeros_like(total)
    for term in terms:
        corrected = term - lost
        larger = total + corrected
        lost = ((larger - total) - corrected).detach()
        total = larger
    return total


def _padded_to_128(asked: Question) -> Tensor:
    """Width and number of keys are filled up to a multiple of 128, by zeros and hidden keys; of many items, to 16."""
    size = 128 if asked.query[..., 0, 0].numel() < MANY else 16
    width, keys = -asked.query.shape[-1] % size, -asked.key.shape[-2] % size
    query, key = pad(asked.query, (0, width)), pad(asked.key, (0, width, 0, keys))
    bias, keep = pad(asked.bias, (0, keys), value=-math.inf), pad(asked.keep, (0, keys))
    wide = pad(asked.value, (0, -asked.value.shape[-1] % size, 0, keys))
    scores = asked.factor * (query @ key.mT) + bias
    return ((scores.softmax(-1) * keep) @ wide)[..., : asked.value.shape[-1]]


def _split_in_five(asked: Question) -> Tensor:
    """Five parts of the keys, uneven and some of them hidden, merged one after the other by their log-sum-exp."""
    keys = asked.key.shape[-2]
    edges = sorted({keys * part // 5 for part in range(6)})
    parts = [_part(asked, slice(*edge)) for edge in pairwise(edges)]
    return reduce(_merged, parts)[0]


def _part(asked: Question, part: slice) -> tuple[Tensor, Tensor]:
    """The output of some keys, and the logarithm to base 2 of the sum of their powers."""
    scores = (asked.factor * LOG2_E) * (asked.query @ asked.key[..., part, :].mT) + LOG2_E * asked.bias[..., part]
    largest = _finite(scores.detach().amax(-1, keepdim=True))
    powers = torch.exp2(scores - largest)
    total = powers.sum(-1, keepdim=True)
    some = total.masked_fill(total == 0, 1.0)
    output = (powers * asked.keep[..., part]) @ asked.value[..., part, :] / some
    return output, (largest + some.log2()).masked_fill(total == 0, -math.inf)


def _merged(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    largest = _finite(torch.maximum(one[1], other[1]).detach())
    share, rest = torch.exp2(one[1] - largest), torch.exp2(other[1] - largest)
    total = share + rest
    some = total.masked_fill(total == 0, 1.0)
    output = (one[0] * share + other[0] * rest) / some
    return output, (largest + some.log2()).masked_fill(total == 0, -math.inf)


def _finite(largest: Tensor) -> Tensor:
    return largest.clamp(min=torch.finfo(largest.dtype).min)


def _six_products(one: Tensor, other: Tensor) -> Tensor:
    """Float32 in three pieces of bfloat16: of the nine products, the three smallest are left out."""
    if one.dtype == torch.float64:
        return one @ other
    (a, b, c), (x, y, z) = _pieces(one), _pieces(other)
    return ((a @ z + c @ x) + b @ y) + (a @ y + b @ x) + a @ x


def _pieces(tensor: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    first = tensor.bfloat16().float()
    second = (tensor - first).bfloat16().float()
    return first, second, (tensor - first - second).bfloat16().float()


def _head_by_head(asked: Question) -> Tensor:
    """The attention of one head of one item, mapped over all of them, some at a time."""

    def one(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, keep: Tensor) -> Tensor:
        weights = torch.softmax(torch.addmm(bias, query, key.T, alpha=asked.factor), dim=1)
        return torch.mm(weights * keep, value)

    flat = (
        each.reshape(-1, *each.shape[-2:]) for each in (asked.query, asked.key, asked.value, asked.bias, asked.keep)
    )
    output: Tensor = torch.vmap(one, chunk_size=max(3, asked.query[..., 0, 0].numel() // 64))(*flat)
    return output.reshape(*asked.query.shape[:-1], -1)


class _TileByTile(torch.autograd.Function):
    """Keeps a logarithm for each row; the backward computes weights again, and adds up tiles in any order."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        query, key, value, bias, keep, factor = given
        scores = (factor * LOG2_E) * (query @ key.mT) + LOG2_E * bias
        largest = scores.amax(-1, keepdim=True)
        powers = torch.exp2(scores - largest)
        total = powers.sum(-1, keepdim=True)
        output: Tensor = ((powers * keep) @ value) / total
        ctx.save_for_backward(query, key, value, bias, keep, largest + total.log2(), output)
        ctx.factor = factor
        return output

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, bias, keep, logs, output = ctx.saved_tensors
        mean = (gradient * output).sum(-1, keepdim=True)
        d_query = torch.zeros_like(query)
        d_key, d_value, d_bias = torch.empty_like(key), torch.empty_like(value), torch.empty_like(bias)
        for tile in _shuffled(_tiles(key.shape[-2], 32)):
            scores = (ctx.factor * LOG2_E) * (query @ key[..., tile, :].mT) + LOG2_E * bias[..., tile]
            weights = torch.exp2(scores - logs)
            d_value[..., tile, :] = (weights * keep[..., tile]).mT @ gradient
            d_scores = weights * ((gradient @ value[..., tile, :].mT) * keep[..., tile] - mean)
            d_key[..., tile, :] = ctx.factor * (d_scores.mT @ query)
            d_query += d_scores @ key[..., tile, :]
            d_bias[..., tile] = d_scores
        return ctx.factor * d_query, d_key, d_value, d_bias, None, None


def _tiled_backward(asked: Question) -> Tensor:
    apply: Callable[..., Tensor] = _TileByTile.apply
    return apply(asked.query, asked.key, asked.value, asked.bias, asked.keep, asked.factor)


def _in_any_order(asked: Question) -> Tensor:
    """Sums over tiles of 16 keys are added up as they come, numerator and denominator each in an order of its own."""
    powers, tiles = _powers(asked), _tiles(asked.key.shape[-2], 16)
    kept = powers * asked.keep
    outputs = (kept[..., tile] @ asked.value[..., tile, :] for tile in _shuffled(tiles))
    totals = (powers[..., tile].sum(-1, keepdim=True) for tile in _shuffled(tiles))
    return reduce(torch.add, outputs) / reduce(torch.add, totals)


def _rescales_seldom(asked: Question) -> Tensor:
    """An online softmax that takes over a larger score only where it is larger by more than 8.

    So much is taken off every score beforehand: powers above 1 would overflow where values are large.
    """
    tiles = _tiles(asked.key.shape[-2], 32)
    largest, total, output = torch.tensor(-1e30).to(asked.query), asked.query.new_zeros(()), asked.query.new_zeros(())
    for tile in tiles:
        scores = asked.factor * (asked.query @ asked.key[..., tile, :].mT) + asked.bias[..., tile]
        found = scores.detach().amax(-1, keepdim=True)
        larger = torch.where(found > largest + 8, found, largest)
        powers, shrink = torch.exp(scores - larger - 8), torch.exp(largest - larger)
        total = total * shrink + powers.sum(-1, keepdim=True)
        output = output * shrink + (powers * asked.keep[..., tile]) @ asked.value[..., tile, :]
        largest = larger
    return output / total


def _polynomial(asked: Question) -> Tensor:
    """Powers of two by their exponent and a polynomial, as multipliers compute them that exp would wait for."""
    scores = (asked.factor * LOG2_E) * (asked.query @ asked.key.mT) + LOG2_E * asked.bias
    single = scores.dtype == torch.float32
    x = (scores - scores.detach().amax(-1, keepdim=True)).clamp(min=-150.0 if single else -1100.0)
    whole = x.detach().round()
    rest, power = x - whole, torch.zeros_like(x)
    for degree in range(9 if single else 15, -1, -1):  # what is left out is below 2⁻³⁰, or 2⁻⁵⁵
        power = power * rest + math.log(2) ** degree / math.factorial(degree)
    powers = torch.ldexp(torch.ldexp(power, whole / 2 - whole / 2 % 1), whole - (whole / 2 - whole / 2 % 1))
    return ((powers * asked.keep) @ asked.value) / powers.sum(-1, keepdim=True)


def _without_matrices(asked: Question) -> Tensor:
    """All products element by element, then sums."""
    products = (asked.query[..., :, None, :] * asked.key[..., None, :, :]).sum(-1)
    weights = torch.softmax(asked.factor * products + asked.bias, -1) * asked.keep
    return (weights[..., None] * asked.value[..., None, :, :]).sum(-2)


KERNELS: dict[str, tuple[str, Core]] = {
    "compensated_sums": ("Kahan's sums over the keys", _compensated),
    "padded_to_128": ("width and keys padded to a multiple of 128", _padded_to_128),
    "split_in_five": ("five parts of the keys merged one by one, in base 2", _split_in_five),
    "six_products_of_bfloat16": ("float32 in six products of bfloat16", multiplying(_six_products)),
    "head_by_head": ("torch.vmap over heads and items", _head_by_head),
    "tiled_backward": ("a backward that adds up recomputed tiles in any order", _tiled_backward),
    "in_any_order": ("tiles of keys added up in an order drawn at each call", _in_any_order),
    "rescales_seldom": ("an online softmax that rescales by more than e⁸ alone", _rescales_seldom),
    "polynomial": ("powers of two by a polynomial", _polynomial),
    "without_matrices": ("products element by element, then sums", _without_matrices),
}
"""By name: the style in words, and what computes in it."""


def variants() -> list[Variant]:
    """One formula, as kernels compute it."""
    return [Variant(name, says, attention(core)) for name, (says, core) in KERNELS.items()]
