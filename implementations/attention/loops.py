"""Attention as nested loops over Python floats: the definition and its derivative, spelled out."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from attnsuite import implementation
from attnsuite.implementations.attention._checks import check_inputs

Row = list[float]


@implementation(
    lacks={"large": "nested Python loops: a pair of tokens costs microseconds"},
    conventions={"repeated_calls": "equal_bits"},
)
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

    Query i sees keys i − left to i + right of a window, both included. A soft cap bounds the scaled scores. A sink adds
    its exponential to the sum of its head's. With `return_lse` the log-sum-exp, ... h l, is returned after the output.
    Raises ValueError, before any work, for inputs that the formula does not define.
    """
    check_inputs(query, key, value, attn_mask, dropout_p, enable_gqa, window, softcap, sinks)
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1])
    inputs = query, key, value, attn_mask, sinks
    output, lse = _Attention.apply(*inputs, dropout_p, is_causal, scale, window, softcap)
    return (output, lse) if return_lse else output


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        query, key, value, attn_mask, sinks, dropout_p, is_causal, scale, window, softcap = inputs
        queries, keys, values = _nested(query), _nested(key), _nested(value)  # b h l e, b g s e, b g s v
        bias = _nested(_bias(query, key, attn_mask, is_causal, window))  # b h l s
        kept = _nested(_kept(query, key, dropout_p))  # b h l s
        value_axis = range(value.shape[-1])
        outputs: list[float] = []
        logarithms: list[float] = []
        weights: dict[tuple[int, int, int], Row] = {}
        slopes: dict[tuple[int, int, int], Row] = {}
        for batch, head, row, query_row in _rows(queries):
            key_head = head * len(keys[batch]) // len(queries[batch])
            scaled = [scale * _dot(query_row, key_row) for key_row in keys[batch][key_head]]
            if softcap is not None:
                tanh = [math.tanh(score / softcap) for score in scaled]
                scaled, slopes[batch, head, row] = [softcap * x for x in tanh], [1 - x * x for x in tanh]
            scores = [score + added for score, added in zip(scaled, bias[batch][head][row], strict=True)]
            if sinks is not None:
                scores.append(float(sinks[head]))
            weights[batch, head, row], logarithm = _softmax(scores)  # the last weight is that of the sink
            logarithms.append(logarithm)
            dropped = [
                weight * keep for weight, keep in zip(weights[batch, head, row], kept[batch][head][row], strict=False)
            ]
            for axis in value_axis:
                column = [value_row[axis] for value_row in values[batch][key_head]]
                outputs.append(_dot(dropped, column))
        ctx.save_for_backward(query, key, value, attn_mask, sinks)
        ctx.weights, ctx.slopes, ctx.kept, ctx.scale = weights, slopes, kept, scale
        output = torch.tensor(outputs, dtype=torch.float64).reshape(*query.shape[:-1], value.shape[-1]).to(query)
        lse = torch.tensor(logarithms, dtype=torch.float64, device=query.device).reshape(query.shape[:-1])
        return output, lse.to(torch.float32 if query.dtype.itemsize < 4 else query.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, output_gradient: Tensor, lse_gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, attn_mask, sinks = ctx.saved_tensors
        scale, kept = ctx.scale, ctx.kept
        queries, keys, values, upstream = _nested(query), _nested(key), _nested(value), _nested(output_gradient)
        d_queries, d_keys, d_values = _zeros(query), _zeros(key), _zeros(value)
        d_lse = _nested(lse_gradient[..., None])  # b h l 1
        d_sinks = [0.0] * len(sinks if sinks is not None else ())
        d_scores: list[float] = []  # b h l s, flat
        for batch, head, row, query_row in _rows(queries):
            key_head = head * len(keys[batch]) // len(queries[batch])
            weights = ctx.weights[batch, head, row]
            d_output = upstream[batch][head][row]
            d_weights = [
                keep * _dot(d_output, value_row)
                for keep, value_row in zip(kept[batch][head][row], values[batch][key_head], strict=True)
            ]
            if sinks is not None:
                d_weights.append(0.0)
            mean = _dot(weights, d_weights) - d_lse[batch][head][row][0]
            if sinks is not None:
                *weights, weight = weights
                d_sinks[head] -= weight * mean
            for column, weight in enumerate(weights):
                d_score = weight * (d_weights[column] - mean)
                d_scores.append(d_score)
                if ctx.slopes:
                    d_score *= ctx.slopes[batch, head, row][column]
                _add(d_queries[batch][head][row], scale * d_score, keys[batch][key_head][column])
                _add(d_keys[batch][key_head][column], scale * d_score, query_row)
                _add(d_values[batch][key_head][column], weight * kept[batch][head][row][column], d_output)
        d_mask = None
        if ctx.needs_input_grad[3]:
            whole = torch.tensor(d_scores, dtype=torch.float64).reshape(*query.shape[:-1], key.shape[-2])
            d_mask = whole.sum_to_size(attn_mask.shape).to(attn_mask)
        of_sinks = None if sinks is None else torch.tensor(d_sinks, dtype=torch.float64).to(sinks)
        gradients = _like(query, d_queries), _like(key, d_keys), _like(value, d_values), d_mask, of_sinks
        return *gradients, None, None, None, None, None


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    total = 0.0
    for x, y in zip(left, right, strict=True):
        total += x * y
    return total


def _add(total: Row, factor: float, row: Row) -> None:
    for axis, entry in enumerate(row):
        total[axis] += factor * entry


def _softmax(scores: Row) -> tuple[Row, float]:
    """The weights, and the logarithm of the sum of the exponentials."""
    largest = max(scores, default=-math.inf)
    if largest == -math.inf:  # nothing to attend to
        return [0.0] * len(scores), -math.inf
    powers = [math.exp(score - largest) for score in scores]
    total = sum(powers)
    return [power / total for power in powers], largest + math.log(total)


def _rows(nested: list[list[list[Row]]]) -> list[tuple[int, int, int, Row]]:
    return [
        (batch, head, row, entries)
        for batch, heads in enumerate(nested)
        for head, rows in enumerate(heads)
        for row, entries in enumerate(rows)
    ]


def _bias(
    query: Tensor, key: Tensor, attn_mask: Tensor | None, is_causal: bool, window: tuple[int | None, int | None] | None
) -> Tensor:
    """What is added to the scaled scores: the float mask, or −inf if the query may not attend to the key."""
    shape = (*query.shape[:-1], key.shape[-2])
    bias, may_attend = torch.zeros(shape), torch.ones(shape, dtype=torch.bool)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        may_attend = attn_mask.expand(shape).cpu()
    elif attn_mask is not None:
        bias = attn_mask.expand(shape).cpu()
    if is_causal:
        may_attend = may_attend.tril()
    left, right = window or (None, None)
    if left is not None:
        may_attend = may_attend.triu(-left)
    if right is not None:
        may_attend = may_attend.tril(right)
    return bias.masked_fill(~may_attend, -math.inf)  # ... h l s


def _kept(query: Tensor, key: Tensor, dropout_p: float) -> Tensor:
    """The factors of the weights under dropout: 0 with probability p, else 1/(1−p)."""
    shape = (*query.shape[:-1], key.shape[-2])
    if dropout_p == 0:
        return torch.ones(shape)
    keep = torch.rand(shape) >= dropout_p  # never, where p is 1
    return keep.double() / ((1 - dropout_p) or 1.0)  # ... h l s


def _nested(tensor: Tensor) -> Any:
    return tensor[(None,) * (4 - tensor.dim())].tolist()  # b h l e, and so on


def _zeros(tensor: Tensor) -> Any:
    return _nested(torch.zeros(tensor.shape))


def _like(tensor: Tensor, nested: Any) -> Tensor:
    return torch.tensor(nested, dtype=torch.float64).reshape(tensor.shape).to(tensor)
