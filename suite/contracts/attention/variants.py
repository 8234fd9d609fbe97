"""Correct attention in other styles: in another order, or as kernels compute. A case that fails one is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from itertools import count
from random import Random
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from attnsuite.cases import Variant
from attnsuite.contracts.attention.computation.call import AttentionCall, as_attention, check
from attnsuite.contracts.attention.feature import features
from attnsuite.contracts.attention.features.scale import factor


class Inputs(NamedTuple):
    """One call with equal heads, the scale as a number, and all masks as one bias."""

    query: Tensor  # ... h l e
    key: Tensor  # ... h s e
    value: Tensor  # ... h s v
    factor: float
    bias: Tensor  # ... h l s, no row is all −inf
    keep: Tensor  # ... h l s, dropout's multiplier

    @property
    def scores(self) -> Tensor:
        """The scores before the softmax."""
        return self.factor * (self.query @ self.key.mT) + self.bias

    @property
    def exponentials(self) -> Tensor:
        """The exponentials of the scores, with a largest value of 1 in each row."""
        return torch.exp(self.scores - self.scores.detach().amax(-1, keepdim=True))


Core = Callable[[Inputs], Tensor]
USUAL = ("attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa", "window")
"""The options that all styles take; the last variants also take the others."""


def attention(core: Core, wide: Callable[[torch.dtype], torch.dtype] | None = None) -> Callable[..., Tensor]:
    """The contract's signature around a core, which sees neither empty rows nor a call without keys."""

    def with_core(call: AttentionCall) -> Tensor:
        check(call)
        query, key, value = spread(call, wide(call.query.dtype) if wide else call.accumulator)
        if 0 in call.scores_shape:
            return (query @ key.transpose(-1, -2) @ value).to(call.query.dtype)
        bias, empty = bias_of(call, query.dtype)
        output = core(Inputs(query, key, value, factor(call), bias, kept(call, query.dtype)))
        return output.masked_fill(empty, 0.0).to(call.query.dtype)

    return as_attention(with_core, USUAL)


def spread(call: AttentionCall, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value in a dtype; each key head stands before all of its query heads."""
    query, key, value = (tensor.to(dtype) for tensor in (call.query, call.key, call.value))
    if call.grouped:
        which = torch.arange(call.heads, device=query.device) * call.key_heads // call.heads
        key, value = key.index_select(-3, which), value.index_select(-3, which)
    return query, key, value


def bias_of(call: AttentionCall, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """All masks as one bias, and the rows that they leave empty, where the bias is 0."""
    bias = torch.zeros(call.scores_shape, dtype=dtype, device=call.query.device)
    for feature in features():
        value = feature.value(call.options)
        if feature.added and value is not None and (added := feature.added(call.grid(), value)) is not None:
            bias = bias + added.to(dtype)
    if (seen := call.visible()) is not None:
        bias = bias.masked_fill(seen.logical_not(), -math.inf)
    empty = (bias == -math.inf).all(dim=-1, keepdim=True)
    return bias.masked_fill(empty, 0.0), empty


def kept(call: AttentionCall, dtype: torch.dtype) -> Tensor:
    """Dropout's multiplier for each weight."""
    ones = torch.ones(call.scores_shape, dtype=dtype, device=call.query.device)
    return torch.nn.functional.dropout(ones, call["dropout_p"]) if call["dropout_p"] > 0 else ones


BLOCK = 32
"""Keys in a block of the online softmax."""
SPLIT = 20
"""Keys in a part of split-k: fewer than a block, so that cases with tens of keys have several parts."""


class State(NamedTuple):
    """The softmax of some keys before it is normalised."""

    largest: Tensor  # ... h l 1, −inf where no key is visible
    total: Tensor  # ... h l 1
    output: Tensor  # ... h l v


def _of_keys(x: Inputs, keys: slice, floor: Tensor | None = None) -> State:
    """The state of these keys, relative to their largest score, or to `floor` where that is larger."""
    scores = x.factor * (x.query @ x.key[..., keys, :].mT) + x.bias[..., keys]
    largest = scores.amax(-1, keepdim=True)
    largest = largest if floor is None else torch.maximum(floor, largest)
    exponentials = torch.exp(scores - _zero_if_hidden(largest))
    output = (exponentials * x.keep[..., keys]) @ x.value[..., keys, :]
    return State(largest, exponentials.sum(-1, keepdim=True), output)


def _zero_if_hidden(largest: Tensor) -> Tensor:
    return largest.masked_fill(largest == -math.inf, 0.0)


def _online(x: Inputs) -> Tensor:
    """Blocks of keys from the first to the last; each rescales the state so far to the running maximum."""
    state = _of_keys(x, slice(0, BLOCK))
    for start in range(BLOCK, x.key.shape[-2], BLOCK):
        block = _of_keys(x, slice(start, start + BLOCK), floor=state.largest)
        shrink = torch.exp(state.largest - _zero_if_hidden(block.largest))
        state = State(block.largest, shrink * state.total + block.total, shrink * state.output + block.output)
    return state.output / state.total


def _merged_states(one: State, other: State) -> State:
    largest = torch.maximum(one.largest, other.largest)
    share, rest = torch.exp(one.largest - _zero_if_hidden(largest)), torch.exp(other.largest - _zero_if_hidden(largest))
    return State(largest, share * one.total + rest * other.total, share * one.output + rest * other.output)


def _split_keys(x: Inputs) -> Tensor:
    """Parts of the keys, merged two by two."""
    states = [_of_keys(x, slice(start, start + SPLIT)) for start in range(0, x.key.shape[-2], SPLIT)]
    while len(states) > 1:
        odd = states[len(states) // 2 * 2 :]
        states = [*map(_merged_states, states[0:-1:2], states[1::2]), *odd]
    return states[0].output / states[0].total


def _two_passes(x: Inputs) -> Tensor:
    """`max(dim).values` passes the whole residual to one key where several are equal; `amax` divides it."""
    scores = x.scores
    exponentials = torch.exp(scores - scores.max(-1, keepdim=True).values)
    return (exponentials / exponentials.sum(-1, keepdim=True) * x.keep) @ x.value


def _by_hand(x: Inputs) -> Tensor:
    """exp(score − log-sum-exp), the log-sum-exp written out."""
    scores = x.scores
    largest = scores.amax(-1, keepdim=True)
    logs = largest + torch.exp(scores - largest).sum(-1, keepdim=True).log()
    return (torch.exp(scores - logs) * x.keep) @ x.value


MAXIMA: dict[str, tuple[str, Core]] = {
    "running_maximum_in_graph": ("an online softmax, differentiated through its running maximum", _online),
    "split_maximum_in_graph": ("split-k merged pairwise, differentiated through the maxima", _split_keys),
    "maximum_in_graph": ("two passes, differentiated through max(dim).values", _two_passes),
    "logsumexp_in_graph": ("a log-sum-exp by hand, differentiated through its maximum", _by_hand),
}


LOG2_E = math.log2(math.e)
MANY = 2**12
"""Heads of all items from which padding goes to 16 only: tens of thousands of heads padded to 128 take gigabytes."""
_CALLS = count()


def _keys_first(x: Inputs) -> Tensor:
    """Scores with the keys as rows; the output is a transposed view."""
    weights = (x.key @ x.query.mT * x.factor + x.bias.mT).softmax(-2) * x.keep.mT  # ... h s l
    return (x.value.mT @ weights).mT


def _root_of_scale(x: Inputs) -> Tensor:
    """Query and key are each multiplied by the root of the scale, the query by its sign as well."""
    root = math.sqrt(abs(x.factor))
    scores = (x.query * math.copysign(root, x.factor)) @ (x.key * root).mT
    return ((scores + x.bias).softmax(-1) * x.keep) @ x.value


def _from_the_mask(x: Inputs) -> Tensor:
    """Each sum begins with the mask, at whose size every product that follows is rounded."""
    query, scores = x.factor * x.query, x.bias
    for column in range(query.shape[-1]):
        scores = scores + query[..., column, None] * x.key[..., None, :, column]
    return (scores.softmax(-1) * x.keep) @ x.value


def _another_order_each_call(x: Inputs) -> Tensor:
    """Tiles of 16 keys, in an order of their own at each call, so that sums differ as those of atomics do."""
    tiles = [slice(start, start + 16) for start in range(0, x.key.shape[-2], 16)]
    random, exponentials = Random(next(_CALLS)), x.exponentials
    outputs = ((exponentials * x.keep)[..., tile] @ x.value[..., tile, :] for tile in random.sample(tiles, len(tiles)))
    totals = (exponentials[..., tile].sum(-1, keepdim=True) for tile in random.sample(tiles, len(tiles)))
    return reduce(torch.add, outputs) / reduce(torch.add, totals)


# Products of matrices in other arithmetic


class Multiplied(torch.autograd.Function):
    """A product of matrices by the function `multiply`, which also computes its gradients."""

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
    """A core with both products of float32 matrices by `multiply`; products of float64 are as usual."""

    def in_single(one: Tensor, other: Tensor) -> Tensor:
        return one @ other if one.dtype == torch.float64 else multiply(one, other)

    def core(x: Inputs) -> Tensor:
        apply: Callable[..., Tensor] = Multiplied.apply
        scores = x.factor * apply(x.query, x.key.mT, in_single) + x.bias
        return apply(scores.softmax(-1) * x.keep, x.value, in_single)

    return core


def _three_products(one: Tensor, other: Tensor) -> Tensor:
    """Tensor cores: numbers are cut after 11 bits; the product of the two rests is left out."""
    large, larger = _cut(one), _cut(other)
    small, smaller = _cut(one - large), _cut(other - larger)
    return (small @ larger + large @ smaller) + large @ larger


def _cut(tensor: Tensor) -> Tensor:
    """The first 11 bits of every number."""
    mantissa, exponent = torch.frexp(tensor)
    return torch.ldexp((mantissa * 2**11).trunc() / 2**11, exponent)


# As kernels compute


def _padded(x: Inputs, size: int) -> Tensor:
    """Width and number of keys are padded to a multiple of `size`, or 16 with many items, by zeros and hidden keys."""
    size = size if x.query[..., 0, 0].numel() < MANY else 16
    width, keys = -x.query.shape[-1] % size, -x.key.shape[-2] % size
    query, key = pad(x.query, (0, width)), pad(x.key, (0, width, 0, keys))
    bias, keep = pad(x.bias, (0, keys), value=-math.inf), pad(x.keep, (0, keys))
    wide = pad(x.value, (0, -x.value.shape[-1] % size, 0, keys))
    scores = x.factor * (query @ key.mT) + bias
    return ((scores.softmax(-1) * keep) @ wide)[..., : x.value.shape[-1]]


class _TileByTile(torch.autograd.Function):
    """Keeps a logarithm for each row; the backward pass computes weights again, and adds up tiles in any order."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        query, key, value, bias, keep, factor = inputs
        scores = (factor * LOG2_E) * (query @ key.mT) + LOG2_E * bias
        largest = scores.amax(-1, keepdim=True)
        exponentials = torch.exp2(scores - largest)
        total = exponentials.sum(-1, keepdim=True)
        output: Tensor = ((exponentials * keep) @ value) / total
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


def _pair_by_sigmoid(x: Inputs) -> Tensor:
    """Of two keys, the first has the sigmoid of the scores' difference, and the second the rest."""
    if x.key.shape[-2] != 2:
        return _dense(x)
    first = torch.sigmoid(x.scores[..., :1] - x.scores[..., 1:])
    return (torch.cat([first, 1 - first], -1) * x.keep) @ x.value


def _sorted_keys(x: Inputs) -> Tensor:
    """The keys of each query by their scores, the smallest first."""
    scores, order = x.scores.sort(-1)
    weights = scores.softmax(-1) * x.keep.gather(-1, order)
    return torch.zeros_like(weights).scatter(-1, order, weights) @ x.value


def _head_by_head(x: Inputs) -> Tensor:
    if x.query.dim() < 3:
        return _dense(x)
    tensors = [name for name in Inputs._fields if name != "factor"]
    heads = range(x.query.shape[-3])
    parts = [x._replace(**{name: getattr(x, name)[..., head, :, :] for name in tensors}) for head in heads]
    return torch.stack([_dense(part) for part in parts], -3)


def _vmapped(x: Inputs) -> Tensor:
    """A function of one matrix, mapped over the leading axes."""

    def core(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, keep: Tensor) -> Tensor:
        return _dense(Inputs(query, key, value, x.factor, bias, keep))

    mapped: Callable[..., Tensor] = core
    for _ in range(x.query.dim() - 2):
        mapped = torch.vmap(mapped)
    return mapped(x.query, x.key, x.value, x.bias, x.keep)


def _from_the_last_block(x: Inputs) -> Tensor:
    flipped = (x.key.flip(-2), x.value.flip(-2), x.factor, x.bias.flip(-1), x.keep.flip(-1))
    return _online(Inputs(x.query, *flipped))


STYLES: dict[str, tuple[str, Core]] = {
    "log_space": (
        "the exponential of log_softmax",
        lambda x: (torch.log_softmax(x.scores, -1).exp() * x.keep) @ x.value,
    ),
    "pair_by_sigmoid": ("of two keys, a sigmoid and the rest", _pair_by_sigmoid),
    "sorted_keys": ("the keys of each query sorted by their scores", _sorted_keys),
    "head_by_head": ("one head after the other", _head_by_head),
    "vmapped": ("torch.vmap over items and heads", _vmapped),
    "from_the_last_block": ("an online softmax from the last block of keys to the first", _from_the_last_block),
    "keys_first": ("scores with keys as rows; returns a transposed view", _keys_first),
    "root_of_scale": ("query and key each times the root of the scale", _root_of_scale),
    "from_the_mask": ("scores summed product by product, from the mask on", _from_the_mask),
    "another_order_each_call": ("no two calls sum in one order, as atomics", _another_order_each_call),
    "tensor_cores": ("float32 in three products of TensorFloat-32, cut off", _multiplying(_three_products)),
    **{f"padded_to_{n}": (f"width and keys padded to a multiple of {n}", partial(_padded, size=n)) for n in (64, 128)},
    "tiled_backward": ("a backward that adds up recomputed tiles in any order", _tiled_backward),
}


def _dense(x: Inputs) -> Tensor:
    return (x.scores.softmax(-1) * x.keep) @ x.value


_plain = attention(_dense)


def _in_its_own_dtype(call: AttentionCall) -> Tensor:
    """Products in the half type itself, the softmax in float32."""
    check(call)
    dtype = call.query.dtype
    query, key, value = spread(call, dtype)
    products = query @ key.mT
    if not products.isfinite().all():
        raise NotImplementedError(f"the products of query and key exceed {dtype}")
    if 0 in call.scores_shape:
        return products @ value
    wide = torch.promote_types(dtype, torch.float32)
    bias, empty = bias_of(call, wide)
    weights = torch.softmax((products.to(wide) * factor(call)) + bias, dim=-1) * kept(call, wide)
    low = weights.to(dtype)
    if low.requires_grad:
        low.register_hook(_refuse_overflow)
    return (low @ value).masked_fill(empty, 0.0)


def _refuse_overflow(gradient: Tensor) -> None:
    if not gradient.isfinite().all():
        raise NotImplementedError(f"the products of output gradient and values exceed {gradient.dtype}")


# Soft caps, sinks and log-sum-exps

Pair = tuple[Tensor, Tensor]
"""An output, … h l v, and its log-sum-exp, … h l 1, −∞ where no key is visible."""
Part = Callable[[Tensor, Tensor, Tensor], Pair]
"""The result of some keys, of their scores, values and dropout's multipliers."""


def _by_lse(scores: Tensor, value: Tensor, keep: Tensor) -> Pair:
    """exp(score − log-sum-exp), whose second pass never divides."""
    empty = (scores == -math.inf).all(-1, keepdim=True)  # whose log-sum-exp would have NaN gradients
    logs = _masked(scores.masked_fill(empty, 0.0).logsumexp(-1, keepdim=True), scores)
    weights = torch.exp(scores - logs.masked_fill(logs == -math.inf, 0.0))
    return (weights * keep) @ value, logs


def _in_base_2(scores: Tensor, value: Tensor, keep: Tensor) -> Pair:
    """Powers of two; the logarithm is changed to base e at the end."""
    scores = scores * LOG2_E
    largest = scores.detach().amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
    powers = torch.exp2(scores - largest)
    total = powers.sum(-1, keepdim=True)
    some = total.masked_fill(total == 0, 1.0)
    return (powers * keep) @ value / some, _masked((largest + some.log2()) * math.log(2), scores)


def _masked(logs: Tensor, scores: Tensor) -> Tensor:
    return logs.masked_fill((scores == -math.inf).all(-1, keepdim=True), -math.inf)


def _by_logaddexp(scores: Tensor, value: Tensor, keep: Tensor) -> Pair:
    """Parts of 48 keys, merged by logaddexp of their log-sum-exps."""
    parts = [slice(start, start + 48) for start in range(0, scores.shape[-1], 48)]
    return reduce(_merged, (_by_lse(scores[..., p], value[..., p, :], keep[..., p]) for p in parts))


def _merged(one: Pair, other: Pair) -> Pair:
    """(0, −∞) is neutral; where both are, so is the result."""
    empty = (one[1] == -math.inf) & (other[1] == -math.inf)
    first, second = (logs.masked_fill(empty, 0.0) for logs in (one[1], other[1]))
    both = torch.logaddexp(first, second)
    output = one[0] * torch.exp(first - both) + other[0] * torch.exp(second - both)
    return output, both.masked_fill(empty, -math.inf)


def _as_a_part(result: Pair, logit: Tensor) -> Pair:
    """A sink is a part whose output is 0."""
    return _merged(result, (torch.zeros_like(result[0]), logit))


def _by_share(result: Pair, logit: Tensor) -> Pair:
    """The output times σ(lse − sink), after the fact."""
    output, logs = result
    none = (logs == -math.inf) & (logit == -math.inf)
    apart = logs.masked_fill(none, 0.0) - logit.masked_fill(none, 0.0)
    return output * torch.sigmoid(apart), torch.logaddexp(logs, logit).masked_fill(none, -math.inf)


def _with_lse(
    call: AttentionCall, part: Part, tanh: Callable[[Tensor], Tensor], join: Callable[[Pair, Tensor], Pair]
) -> Any:
    check(call)
    query, key, value = spread(call, call.accumulator)
    scores = factor(call) * (query @ key.mT)
    cap = call["softcap"]
    scores = scores if cap is None else cap * tanh(scores / cap)
    bias, empty = bias_of(call, query.dtype)
    if 0 in call.scores_shape:
        result = (scores @ value, scores.new_full((*scores.shape[:-1], 1), -math.inf))
    else:
        result = part((scores + bias).masked_fill(empty, -math.inf), value, kept(call, query.dtype))
    if call["sinks"] is not None:
        heads = call["sinks"].to(query.dtype).view(-1, *[1] * min(call.rank - 1, 2))
        result = join(result, heads.expand_as(result[1]))
    output = result[0].to(call.query.dtype)
    return (output, result[1][..., 0]) if call["return_lse"] else output


WITH_LSE: dict[str, tuple[str, Callable[[AttentionCall], Any]]] = {
    name: (says, partial(_with_lse, part=part, tanh=tanh, join=join))
    for name, says, part, tanh, join in (
        ("lse_in_two_passes", "exp(score − lse); sinks by σ(lse − sink)", _by_lse, torch.tanh, _by_share),
        (
            "lse_from_base_2",
            "powers of two; tanh(x) as 2σ(2x) − 1, as in Triton; a sink as a part",
            _in_base_2,
            lambda x: 2 * torch.sigmoid(2 * x) - 1,
            _as_a_part,
        ),
        ("lse_by_logaddexp", "parts merged by logaddexp; a sink as a part", _by_logaddexp, torch.tanh, _as_a_part),
    )
}
"""Computations that take all options, of other contracts too."""


def variants() -> list[Variant]:
    """One formula, many styles, sorted by name. Libraries are among the shipped implementations."""
    wide, own = attention(_dense, lambda dtype: torch.float64), as_attention(_in_its_own_dtype, USUAL)
    further = [Variant(name, says, as_attention(computation)) for name, (says, computation) in WITH_LSE.items()]
    usual = [
        *(Variant(name, says, attention(core)) for name, (says, core) in (STYLES | MAXIMA).items()),
        Variant("float64_inside", "everything is computed in float64", wide),
        Variant("in_its_own_dtype", "multiplies half types in their own dtype", own),
        Variant(
            "positional_only",
            "query, key and value by position only, under other names",
            lambda q, k, v, /, *, attn_mask=None, **others: _plain(q, k, v, attn_mask=attn_mask, **others),
        ),
        Variant("no_options", "takes query, key and value alone", lambda query, key, value: _plain(query, key, value)),
    ]
    return sorted([*usual, *further], key=lambda variant: variant.name)
