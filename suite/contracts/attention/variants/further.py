"""Correct variants of soft caps, sinks and log-sum-exps, as libraries compute them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases import Variant
from attnsuite.contracts.attention.computation.call import AttentionCall, as_attention, check
from attnsuite.contracts.attention.features.scale import factor
from attnsuite.contracts.attention.variants.styles import bias_of, kept, spread

Pair = tuple[Tensor, Tensor]
"""An output, … h l v, and its log-sum-exp, … h l 1, −∞ where no key is visible."""
Part = Callable[[Tensor, Tensor, Tensor], Pair]
"""The result of some keys, of their scores, values and dropout's multipliers."""
LOG2_E = math.log2(math.e)


def _by_sigmoid(x: Tensor) -> Tensor:
    """tanh(x) as 2σ(2x) − 1: Triton has no tanh."""
    return 2 * torch.sigmoid(2 * x) - 1


def _two_passes(scores: Tensor, value: Tensor, keep: Tensor) -> Pair:
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
    return reduce(_merged, (_two_passes(scores[..., p], value[..., p, :], keep[..., p]) for p in parts))


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


def _attention(
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


def variants() -> list[Variant]:
    """Each way to cap, to sum and to join a sink in one of them."""
    rows: list[tuple[str, str, Part, Callable[[Tensor], Tensor], Callable[[Pair, Tensor], Pair]]] = [
        ("lse_in_two_passes", "exp(score − lse); sinks by σ(lse − sink)", _two_passes, torch.tanh, _by_share),
        ("lse_from_base_2", "powers of two; tanh by σ; a sink as a part", _in_base_2, _by_sigmoid, _as_a_part),
        ("lse_by_logaddexp", "parts merged by logaddexp; a sink as a part", _by_logaddexp, torch.tanh, _as_a_part),
    ]
    return [Variant(name, says, as_attention(partial(_attention, part=part, tanh=tanh, join=join)))
        for name, says, part, tanh, join in rows]  # fmt: skip
