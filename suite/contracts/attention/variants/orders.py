"""Strangers that compute the same formula in another order."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from attnsuite.cases import Variant
from attnsuite.contracts.attention.variants.question import Core, Question, attention

Multiply = Callable[[Tensor, Tensor], Tensor]
LOG2_E = math.log2(math.e)


def scores_of(asked: Question) -> Tensor:
    """The scores that the softmax is taken of."""
    return asked.factor * (asked.query @ asked.key.mT) + asked.bias


def _merges_halves(asked: Question) -> Tensor:
    """Each half of the keys for itself, then both weighted by their log-sum-exp."""
    keys = asked.key.shape[-2]
    halves = [slice(0, keys // 2), slice(keys // 2, keys)] if keys > 1 else [slice(0, keys)]
    parts = [_half(asked, half) for half in halves]
    logs = torch.cat([log for _, log in parts], dim=-1)  # ... h l 1|2
    shares = logs.softmax(-1)
    return sum((shares[..., i : i + 1] * output for i, (output, _) in enumerate(parts)), torch.zeros_like(parts[0][0]))


def _half(asked: Question, half: slice) -> tuple[Tensor, Tensor]:
    """The output of some keys, and the log-sum-exp of their scores."""
    scores = asked.factor * (asked.query @ asked.key[..., half, :].mT) + asked.bias[..., half]
    largest = scores.detach().amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
    powers = torch.exp(scores - largest)
    total = powers.sum(-1, keepdim=True)
    nothing = total == 0
    output = (powers * asked.keep[..., half]) @ asked.value[..., half, :] / total.masked_fill(nothing, 1.0)
    return output, (largest + total.masked_fill(nothing, 1.0).log()).masked_fill(nothing, -math.inf)


def _two_passes(asked: Question) -> Tensor:
    """The first pass over chunks of 20 keys finds the largest score and the sum, the second one the output."""
    chunks = [slice(start, start + 20) for start in range(0, asked.key.shape[-2], 20)]

    def scores(chunk: slice) -> Tensor:
        return (asked.query @ (asked.factor * asked.key[..., chunk, :]).mT) + asked.bias[..., chunk]

    largest = torch.stack([scores(chunk).detach().amax(-1) for chunk in chunks]).amax(0).unsqueeze(-1)
    total = torch.stack([(scores(chunk) - largest).exp().sum(-1) for chunk in chunks]).sum(0).unsqueeze(-1)
    output = torch.zeros_like(asked.query[..., :1] * asked.value[..., :1, :])
    for chunk in chunks:
        weights = (scores(chunk) - largest).exp() / total
        output = output + (weights * asked.keep[..., chunk]) @ asked.value[..., chunk, :]
    return output


def _dense(asked: Question) -> Tensor:
    return (scores_of(asked).softmax(-1) * asked.keep) @ asked.value


def _keys_first(asked: Question) -> Tensor:
    """Scores with the keys as rows; the output is a transposed view."""
    scores = asked.key @ asked.query.mT * asked.factor + asked.bias.mT  # ... h s l
    weights = scores.softmax(-2) * asked.keep.mT
    return (asked.value.mT @ weights).mT


def _keys_backwards(asked: Question) -> Tensor:
    """Last key first, so every sum runs the other way."""
    scores = asked.factor * (asked.query @ asked.key.flip(-2).mT) + asked.bias.flip(-1)
    return (scores.softmax(-1) * asked.keep.flip(-1)) @ asked.value.flip(-2)


def _powers_of_two(asked: Question) -> Tensor:
    scores = (asked.factor * LOG2_E) * (asked.query @ asked.key.mT) + LOG2_E * asked.bias
    powers = torch.exp2(scores - scores.detach().amax(-1, keepdim=True))
    return ((powers * asked.keep) @ asked.value) / powers.sum(-1, keepdim=True)


def _root_of_scale(asked: Question) -> Tensor:
    """Query and key each take the root of the scale, the query its sign as well."""
    root = math.sqrt(abs(asked.factor))
    scores = (asked.query * math.copysign(root, asked.factor)) @ (asked.key * root).mT
    return ((scores + asked.bias).softmax(-1) * asked.keep) @ asked.value


def _log_weights(asked: Question) -> Tensor:
    weights = torch.exp(torch.log_softmax(scores_of(asked), dim=-1))
    return (weights * asked.keep) @ asked.value


def _shifted_by_logsumexp(asked: Question) -> Tensor:
    """The logarithm is rounded at the size of the scores, so all weights of a row are off together."""
    scores = scores_of(asked)
    return (torch.exp(scores - scores.logsumexp(-1, keepdim=True)) * asked.keep) @ asked.value


def _einsum(asked: Question) -> Tensor:
    """Axes in no library's order; what comes back is a permuted view."""
    scores = torch.einsum("...le,...se->s...l", asked.query, asked.key).mul(asked.factor)  # s ... h l
    weights = (scores + asked.bias.movedim(-1, 0)).softmax(0) * asked.keep.movedim(-1, 0)
    return torch.einsum("s...l,...sv->v...l", weights, asked.value).movedim(0, -1)


def _baddbmm(asked: Question) -> Tensor:
    """One fused product per flattened batch, the bias as its addend."""
    query, key, value, bias, keep = (
        tensor.reshape(-1, *tensor.shape[-2:])
        for tensor in (asked.query, asked.key, asked.value, asked.bias, asked.keep)
    )
    scores = torch.baddbmm(bias, query, key.transpose(1, 2), beta=1.0, alpha=asked.factor)
    output = torch.bmm(torch.softmax(scores, dim=2) * keep, value)
    return output.reshape(*asked.query.shape[:-1], -1)


def _from_the_mask(asked: Question) -> Tensor:
    """Each sum begins with the mask, at whose size every product that follows is rounded."""
    query, scores = asked.factor * asked.query, asked.bias
    for column in range(query.shape[-1]):
        scores = scores + query[..., column, None] * asked.key[..., None, :, column]
    return (scores.softmax(-1) * asked.keep) @ asked.value


def _small_tiles(asked: Question) -> Tensor:
    """A flash-like loop over tiles of 20 queries and 48 keys; the sum is divided out last."""
    return torch.cat([_row(asked, slice(top, top + 20)) for top in range(0, asked.query.shape[-2], 20)], dim=-2)


def _row(asked: Question, row: slice) -> Tensor:
    """A tile of queries, one tile of keys after another."""
    query = asked.query[..., row, :] * asked.factor
    largest, total, output = torch.tensor(-1e30).to(query), query.new_zeros(()), query.new_zeros(())
    for left in range(0, asked.key.shape[-2], 48):
        column = slice(left, left + 48)
        scores = query @ asked.key[..., column, :].mT + asked.bias[..., row, column]
        larger = torch.maximum(largest, scores.detach().amax(-1, keepdim=True))
        powers, shrink = torch.exp(scores - larger), torch.exp(largest - larger)
        total = total * shrink + powers.sum(-1, keepdim=True)
        output = output * shrink + (powers * asked.keep[..., row, column]) @ asked.value[..., column, :]
        largest = larger
    return output / total


def _one_query_at_a_time(asked: Question) -> Tensor:
    """One query's attention, mapped over all queries."""

    def one(query: Tensor, bias: Tensor, keep: Tensor, key: Tensor, value: Tensor) -> Tensor:
        weights = torch.softmax(asked.factor * (key @ query) + bias, dim=0) * keep
        return weights @ value

    each = torch.vmap(one, in_dims=(0, 0, 0, None, None))
    for _ in range(asked.query.dim() - 2):
        each = torch.vmap(each)
    output: Tensor = each(asked.query, asked.bias, asked.keep, asked.key, asked.value)
    return output


class _Recomputing(torch.autograd.Function):
    """Keeps only the log-sum-exp of each row and computes the weights again for the backward."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor, keep: Tensor, factor: float
    ) -> Tensor:
        scores = factor * (query @ key.mT) + bias
        largest = scores.amax(-1, keepdim=True)
        powers = torch.exp(scores - largest)
        total = powers.sum(-1, keepdim=True)
        output = ((powers / total) * keep) @ value
        logs = largest + total.log()
        ctx.save_for_backward(query, key, value, bias, keep, logs, output)
        ctx.factor = factor
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, bias, keep, logs, output = ctx.saved_tensors
        weights = torch.exp(ctx.factor * (query @ key.mT) + bias - logs)
        mean = (gradient * output).sum(-1, keepdim=True)
        d_scores = weights * ((gradient @ value.mT) * keep - mean)
        d_value = (weights * keep).mT @ gradient
        return ctx.factor * (d_scores @ key), ctx.factor * (d_scores.mT @ query), d_value, d_scores, None, None


def _own_backward(asked: Question) -> Tensor:
    apply: Callable[..., Tensor] = _Recomputing.apply
    return apply(asked.query, asked.key, asked.value, asked.bias, asked.keep, asked.factor)


class Multiplied(torch.autograd.Function):
    """A product of matrices as `multiply` makes it, and its gradients likewise."""

    @staticmethod
    def forward(ctx: Any, one: Tensor, other: Tensor, multiply: Multiply) -> Tensor:
        ctx.save_for_backward(one, other)
        ctx.multiply = multiply
        return multiply(one, other)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        one, other = ctx.saved_tensors
        return ctx.multiply(gradient, other.mT), ctx.multiply(one.mT, gradient), None


def _three_products(one: Tensor, other: Tensor) -> Tensor:
    """The two small parts' product is left out. Float64 is multiplied as it is."""
    if one.dtype == torch.float64:
        return one @ other
    large, larger = _cut(one), _cut(other)
    small, smaller = _cut(one - large), _cut(other - larger)
    return (small @ larger + large @ smaller) + large @ larger


def _cut(tensor: Tensor) -> Tensor:
    """The first 11 bits of every number."""
    mantissa, exponent = torch.frexp(tensor)
    return torch.ldexp((mantissa * 2**11).trunc() / 2**11, exponent)


def multiplying(multiply: Multiply) -> Core:
    """Both products of matrices made in one way."""

    def core(asked: Question) -> Tensor:
        apply: Callable[..., Tensor] = Multiplied.apply
        scores = asked.factor * apply(asked.query, asked.key.mT, multiply) + asked.bias
        return apply(scores.softmax(-1) * asked.keep, asked.value, multiply)

    return core


_CALLS = count()


def _another_order_each_call(asked: Question) -> Tensor:
    """The first key is another one in every call, so that sums differ in their last bits, as those of atomics do."""
    by = next(_CALLS) % asked.key.shape[-2]
    scores = asked.factor * (asked.query @ asked.key.roll(by, -2).mT) + asked.bias.roll(by, -1)
    powers = torch.exp(scores - scores.detach().amax(-1, keepdim=True))
    output, total = torch.zeros_like(asked.query[..., :1] * asked.value[..., :1, :]), powers.new_zeros(())
    for part in range(3):
        some = powers[..., part::3]
        total = total + some.sum(-1, keepdim=True)
        kept = some * asked.keep.roll(by, -1)[..., part::3]
        output = output + kept @ asked.value.roll(by, -2)[..., part::3, :]
    return output / total


ORDERS: dict[str, tuple[str, Core]] = {
    "merges_halves": ("two halves of the keys merged by their log-sum-exp", _merges_halves),
    "two_passes": ("two passes over chunks of 20 keys", _two_passes),
    "keys_first": ("scores with keys as rows; returns a transposed view", _keys_first),
    "keys_backwards": ("sums over the keys from the last to the first", _keys_backwards),
    "powers_of_two": ("base 2, with the factor log₂ e", _powers_of_two),
    "root_of_scale": ("query and key each times the root of the scale", _root_of_scale),
    "log_weights": ("the exponential of a log-softmax", _log_weights),
    "shifted_by_logsumexp": ("exp(score − logsumexp), never divided", _shifted_by_logsumexp),
    "einsum": ("einsum with the keys as the leading axis", _einsum),
    "baddbmm": ("torch.baddbmm with the mask as its addend", _baddbmm),
    "from_the_mask": ("scores summed product by product, from the mask on", _from_the_mask),
    "small_tiles": ("an online softmax over tiles of 20 × 48", _small_tiles),
    "one_query_at_a_time": ("torch.vmap over single queries", _one_query_at_a_time),
    "own_backward": ("an autograd.Function that recomputes its weights", _own_backward),
    "tensor_cores": ("float32 in three products of TensorFloat-32, cut off", multiplying(_three_products)),
    "another_order_each_call": ("no two calls sum in one order, as atomics", _another_order_each_call),
}
"""By name: the order in words, and what computes in it."""


def variants() -> list[Variant]:
    """One formula, many orders."""
    return [
        *(Variant(name, says, attention(core)) for name, (says, core) in ORDERS.items()),
        Variant("float64_inside", "everything is computed in float64", attention(_dense, lambda _: torch.float64)),
    ]
