"""Correct variants that compute the same formula in another order, or as kernels for accelerators do."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from itertools import count, pairwise
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from attnsuite.cases import Variant
from attnsuite.contracts.attention.variants.frame import Core, Inputs, attention, in_style

LOG2_E = math.log2(math.e)
MANY = 2**12
"""Heads of all items together from which padding is small: filled up to 128, tens of thousands take gigabytes."""
_CALLS = count()


def _keys_first(x: Inputs) -> Tensor:
    """Scores with the keys as rows; the output is a transposed view."""
    weights = (x.key @ x.query.mT * x.factor + x.bias.mT).softmax(-2) * x.keep.mT  # ... h s l
    return (x.value.mT @ weights).mT


def _root_of_scale(x: Inputs) -> Tensor:
    """Query and key each take the root of the scale, the query its sign as well."""
    root = math.sqrt(abs(x.factor))
    scores = (x.query * math.copysign(root, x.factor)) @ (x.key * root).mT
    return ((scores + x.bias).softmax(-1) * x.keep) @ x.value


def _shifted_by_logsumexp(x: Inputs) -> Tensor:
    """The logarithm is rounded at the size of the scores, so all weights of a row are off together."""
    return (torch.exp(x.scores - x.scores.logsumexp(-1, keepdim=True)) * x.keep) @ x.value


def _from_the_mask(x: Inputs) -> Tensor:
    """Each sum begins with the mask, at whose size every product that follows is rounded."""
    query, scores = x.factor * x.query, x.bias
    for column in range(query.shape[-1]):
        scores = scores + query[..., column, None] * x.key[..., None, :, column]
    return (scores.softmax(-1) * x.keep) @ x.value


def _another_order_each_call(x: Inputs) -> Tensor:
    """Tiles of 16 keys, in an order of their own at each call, so that sums differ as those of atomics do."""
    tiles = [slice(start, start + 16) for start in range(0, x.key.shape[-2], 16)]
    random, powers = Random(next(_CALLS)), x.powers
    outputs = ((powers * x.keep)[..., tile] @ x.value[..., tile, :] for tile in random.sample(tiles, len(tiles)))
    totals = (powers[..., tile].sum(-1, keepdim=True) for tile in random.sample(tiles, len(tiles)))
    return reduce(torch.add, outputs) / reduce(torch.add, totals)


# Products of matrices in other arithmetic


class Multiplied(torch.autograd.Function):
    """A product of matrices as `multiply` makes it, and its gradients likewise."""

    @staticmethod
    def forward(ctx: Any, one: Tensor, other: Tensor, multiply: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        ctx.save_for_backward(one, other)
        ctx.multiply = multiply
        return multiply(one, other)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        one, other = ctx.saved_tensors
        return ctx.multiply(gradient, other.mT), ctx.multiply(one.mT, gradient), None


def _multiplying(multiply: Callable[[Tensor, Tensor], Tensor]) -> Core:
    """Both products of float32 matrices made in one way; those of float64 are made as usual."""

    def in_single(one: Tensor, other: Tensor) -> Tensor:
        return one @ other if one.dtype == torch.float64 else multiply(one, other)

    def core(x: Inputs) -> Tensor:
        apply: Callable[..., Tensor] = Multiplied.apply
        scores = x.factor * apply(x.query, x.key.mT, in_single) + x.bias
        return apply(scores.softmax(-1) * x.keep, x.value, in_single)

    return core


def _three_products(one: Tensor, other: Tensor) -> Tensor:
    """Tensor cores: numbers cut after 11 bits; the product of what was cut off is left out."""
    large, larger = _cut(one), _cut(other)
    small, smaller = _cut(one - large), _cut(other - larger)
    return (small @ larger + large @ smaller) + large @ larger


def _cut(tensor: Tensor) -> Tensor:
    """The first 11 bits of every number."""
    mantissa, exponent = torch.frexp(tensor)
    return torch.ldexp((mantissa * 2**11).trunc() / 2**11, exponent)


def _six_products(one: Tensor, other: Tensor) -> Tensor:
    """Float32 in three pieces of bfloat16: of the nine products, the three smallest are left out."""
    (a, b, c), (x, y, z) = _pieces(one), _pieces(other)
    return ((a @ z + c @ x) + b @ y) + (a @ y + b @ x) + a @ x


def _pieces(tensor: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    first = tensor.bfloat16().float()
    second = (tensor - first).bfloat16().float()
    return first, second, (tensor - first - second).bfloat16().float()


# As kernels compute


def _padded_to_128(x: Inputs) -> Tensor:
    """Width and number of keys are filled up to a multiple of 128, by zeros and hidden keys; of many items, to 16."""
    size = 128 if x.query[..., 0, 0].numel() < MANY else 16
    width, keys = -x.query.shape[-1] % size, -x.key.shape[-2] % size
    query, key = pad(x.query, (0, width)), pad(x.key, (0, width, 0, keys))
    bias, keep = pad(x.bias, (0, keys), value=-math.inf), pad(x.keep, (0, keys))
    wide = pad(x.value, (0, -x.value.shape[-1] % size, 0, keys))
    scores = x.factor * (query @ key.mT) + bias
    return ((scores.softmax(-1) * keep) @ wide)[..., : x.value.shape[-1]]


def _split_in_five(x: Inputs) -> Tensor:
    """Five parts of the keys, uneven and some of them hidden, merged one after the other by their log-sum-exp."""
    keys = x.key.shape[-2]
    edges = sorted({keys * part // 5 for part in range(6)})
    return reduce(_merged, [_part(x, slice(*edge)) for edge in pairwise(edges)])[0]


def _part(x: Inputs, part: slice) -> tuple[Tensor, Tensor]:
    """The output of some keys, and the logarithm to base 2 of the sum of their powers."""
    scores = (x.factor * LOG2_E) * (x.query @ x.key[..., part, :].mT) + LOG2_E * x.bias[..., part]
    largest = _finite(scores.detach().amax(-1, keepdim=True))
    powers = torch.exp2(scores - largest)
    total = powers.sum(-1, keepdim=True)
    some = total.masked_fill(total == 0, 1.0)
    output = (powers * x.keep[..., part]) @ x.value[..., part, :] / some
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


class _TileByTile(torch.autograd.Function):
    """Keeps a logarithm for each row; the backward computes weights again, and adds up tiles in any order."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        query, key, value, bias, keep, factor = inputs
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
        tiles = [slice(start, start + 32) for start in range(0, key.shape[-2], 32)]
        for tile in Random(next(_CALLS)).sample(tiles, len(tiles)):
            scores = (ctx.factor * LOG2_E) * (query @ key[..., tile, :].mT) + LOG2_E * bias[..., tile]
            weights = torch.exp2(scores - logs)
            d_value[..., tile, :] = (weights * keep[..., tile]).mT @ gradient
            d_scores = weights * ((gradient @ value[..., tile, :].mT) * keep[..., tile] - mean)
            d_key[..., tile, :] = ctx.factor * (d_scores.mT @ query)
            d_query += d_scores @ key[..., tile, :]
            d_bias[..., tile] = d_scores
        return ctx.factor * d_query, d_key, d_value, d_bias, None, None


def _tiled_backward(x: Inputs) -> Tensor:
    apply: Callable[..., Tensor] = _TileByTile.apply
    return apply(x.query, x.key, x.value, x.bias, x.keep, x.factor)


def _rescales_seldom(x: Inputs) -> Tensor:
    """An online softmax that takes over a larger score only where it is larger by more than 8.

    8 is taken off every score beforehand: powers above 1 would overflow where values are large.
    """
    largest, total, output = torch.tensor(-1e30).to(x.query), x.query.new_zeros(()), x.query.new_zeros(())
    for start in range(0, x.key.shape[-2], 32):
        tile = slice(start, start + 32)
        scores = x.factor * (x.query @ x.key[..., tile, :].mT) + x.bias[..., tile]
        of_tile = scores.detach().amax(-1, keepdim=True)
        larger = torch.where(of_tile > largest + 8, of_tile, largest)
        powers, shrink = torch.exp(scores - larger - 8), torch.exp(largest - larger)
        total = total * shrink + powers.sum(-1, keepdim=True)
        output = output * shrink + (powers * x.keep[..., tile]) @ x.value[..., tile, :]
        largest = larger
    return output / total


def _polynomial(x: Inputs) -> Tensor:
    """Powers of two by their exponent and a polynomial, as multipliers compute them that exp would wait for."""
    scores = (x.factor * LOG2_E) * (x.query @ x.key.mT) + LOG2_E * x.bias
    single = scores.dtype == torch.float32
    shifted = (scores - scores.detach().amax(-1, keepdim=True)).clamp(min=-150.0 if single else -1100.0)
    whole = shifted.detach().round()
    power = torch.zeros_like(shifted)
    for degree in range(9 if single else 15, -1, -1):  # what is left out is below 2⁻³⁰, or 2⁻⁵⁵
        power = power * (shifted - whole) + math.log(2) ** degree / math.factorial(degree)
    half = whole / 2 - whole / 2 % 1
    powers = torch.ldexp(torch.ldexp(power, half), whole - half)
    return ((powers * x.keep) @ x.value) / powers.sum(-1, keepdim=True)


STYLES: dict[str, tuple[str, Core]] = {
    "keys_first": ("scores with keys as rows; returns a transposed view", _keys_first),
    "root_of_scale": ("query and key each times the root of the scale", _root_of_scale),
    "shifted_by_logsumexp": ("exp(score − logsumexp), never divided", _shifted_by_logsumexp),
    "from_the_mask": ("scores summed product by product, from the mask on", _from_the_mask),
    "another_order_each_call": ("no two calls sum in one order, as atomics", _another_order_each_call),
    "tensor_cores": ("float32 in three products of TensorFloat-32, cut off", _multiplying(_three_products)),
    "six_products_of_bfloat16": ("float32 in six products of bfloat16", _multiplying(_six_products)),
    "padded_to_128": ("width and keys padded to a multiple of 128", _padded_to_128),
    "split_in_five": ("five parts of the keys merged one by one, in base 2", _split_in_five),
    "tiled_backward": ("a backward that adds up recomputed tiles in any order", _tiled_backward),
    "rescales_seldom": ("an online softmax that rescales by more than e⁸ alone", _rescales_seldom),
    "polynomial": ("powers of two by a polynomial", _polynomial),
}
"""By name: the style in words, and what computes in it."""


def _dense(x: Inputs) -> Tensor:
    return (x.scores.softmax(-1) * x.keep) @ x.value


def variants() -> list[Variant]:
    """One formula, many styles."""
    in_float64 = attention(_dense, lambda dtype: torch.float64)
    return [*in_style(STYLES), Variant("float64_inside", "everything is computed in float64", in_float64)]
