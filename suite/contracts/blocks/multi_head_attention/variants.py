"""Correct multi-head attentions in foreign styles, each with its own way to map, to attend and to merge."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from attnsuite.cases import Variant
from attnsuite.cases.computations import bias_as_row, bias_first, in_float64, widened
from attnsuite.contracts.blocks.multi_head_attention.mutants.staged import MultiHead


class Asked(NamedTuple):
    """One call, checked and spelled out: biases where there were none are zero."""

    inputs: tuple[Tensor, Tensor, Tensor]
    maps: tuple[Tensor, Tensor, Tensor]
    biases: tuple[Tensor, Tensor, Tensor]
    w_output: Tensor | None
    b_output: Tensor | None
    heads: int
    allowed: Tensor  # b h l s
    p: float


Answer = tuple[Tensor, Tensor]
"""The output, and the weights before dropout, b h l s."""


def _function(core: Callable[[Asked], Answer]) -> Callable[..., Any]:
    def multi_head_attention(
        query: Tensor, key: Tensor, value: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, *,
        num_heads: int, w_output: Tensor | None = None, b_query: Tensor | None = None, b_key: Tensor | None = None,
        b_value: Tensor | None = None, b_output: Tensor | None = None, attn_mask: Tensor | None = None,
        is_causal: bool = False, dropout_p: float = 0.0, need_weights: bool = False,
    ) -> Any:  # fmt: skip
        allowed = torch.ones(len(query), num_heads, query.shape[1], key.shape[1], dtype=torch.bool)
        allowed = allowed if attn_mask is None else allowed & attn_mask
        allowed = allowed.tril() if is_causal else allowed
        biases = (_spelled_out(b_query, w_query), _spelled_out(b_key, w_key), _spelled_out(b_value, w_value))
        maps = (w_query, w_key, w_value)
        found = core(Asked((query, key, value), maps, biases, w_output, b_output, num_heads, allowed, dropout_p))
        return found if need_weights else found[0]

    return multi_head_attention


def _spelled_out(bias: Tensor | None, weights: Tensor) -> Tensor:
    return weights.new_zeros(weights.shape[1]) if bias is None else bias


def _fused(asked: Asked) -> Answer:
    """One product maps query, key and value, one below the other, with all three matrices side by side."""
    lengths = [each.shape[1] for each in asked.inputs]
    widest = max(each.shape[2] for each in asked.inputs)
    rows = torch.cat([functional.pad(each, (0, widest - each.shape[2])) for each in asked.inputs], 1)
    columns = torch.cat([functional.pad(each, (0, 0, 0, widest - len(each))) for each in asked.maps], 1)
    mapped = bias_as_row(rows, columns, torch.cat(asked.biases)).split(lengths, 1)
    widths = [each.shape[1] for each in asked.maps]
    query, key, value = (each.split(widths, -1)[role] for role, each in enumerate(mapped))
    return _library_heads(query, key, value, asked)


def _library(asked: Asked) -> Answer:
    """Torch's linear and scaled_dot_product_attention."""
    given = zip(asked.inputs, asked.maps, asked.biases, strict=True)
    query, key, value = (functional.linear(x, weights.mT, bias) for x, weights, bias in given)
    return _library_heads(query, key, value, asked)


def _library_heads(query: Tensor, key: Tensor, value: Tensor, asked: Asked) -> Answer:
    """An empty row gives zeros of a head. The weights are exponentials of a log-softmax."""
    queries, keys, values = (each.unflatten(-1, (asked.heads, -1)).transpose(1, 2) for each in (query, key, value))
    mixed = functional.scaled_dot_product_attention(queries, keys, values, asked.allowed, asked.p)
    full = asked.allowed.any(-1, keepdim=True)
    scores = (queries @ keys.mT / math.sqrt(queries.shape[-1])).masked_fill(~asked.allowed, -math.inf)
    weights = scores.log_softmax(-1).exp().masked_fill(~full, 0.0)
    return _output(mixed.masked_fill(~full, 0.0).transpose(1, 2).flatten(2), asked), weights


def _output(merged: Tensor, asked: Asked) -> Tensor:
    return merged if asked.w_output is None else functional.linear(merged, asked.w_output.mT, asked.b_output)


def _head_by_head(asked: Asked) -> Answer:
    """Each head has columns of its own; its part of the output is added to those before."""
    heads, columns = [], [torch.tensor_split(each, asked.heads, -1) for each in (*asked.maps, *asked.biases)]
    for head in range(asked.heads):
        weights, biases = [each[head] for each in columns[:3]], [each[head] for each in columns[3:]]
        given = zip(asked.inputs, weights, biases, strict=True)
        query, key, value = (bias_first(x, its, bias) for x, its, bias in given)
        heads.append(_attend(query, key, value, asked, head))
    found, shown = [mixed for mixed, _ in heads], torch.stack([each for _, each in heads], 1)
    if asked.w_output is None:
        return torch.cat(found, -1), shown
    total = asked.w_output.new_zeros(asked.w_output.shape[1]) if asked.b_output is None else asked.b_output
    for mixed, rows in zip(found, torch.tensor_split(asked.w_output, asked.heads), strict=True):
        total = total + mixed @ rows
    return total, shown


def _attend(query: Tensor, key: Tensor, value: Tensor, asked: Asked, head: int) -> Answer:
    """One head, whose keys are scaled."""
    scores = query @ (key / math.sqrt(key.shape[-1])).mT
    weights = scores.masked_fill(~asked.allowed[:, head], -math.inf).softmax(-1).nan_to_num(0.0)
    return functional.dropout(weights, asked.p) @ value, weights


def _einsum(asked: Asked) -> Answer:
    """Maps have an axis for their heads, and nothing is ever merged."""
    given = zip(asked.inputs, asked.maps, asked.biases, strict=True)
    query, key, value = (
        torch.einsum("bne,ehp->nbhp", x, weights.unflatten(1, (asked.heads, -1))) + bias.view(asked.heads, -1)
        for x, weights, bias in given
    )
    scores = torch.einsum("lbhp,sbhp->sbhl", query * query.shape[-1] ** -0.5, key)
    allowed = asked.allowed.permute(3, 0, 1, 2)
    weights = scores.masked_fill(~allowed, -math.inf).softmax(0).nan_to_num(0.0)
    mixed = torch.einsum("sbhl,sbhv->blhv", functional.dropout(weights, asked.p), value)
    shown = weights.permute(1, 2, 3, 0)
    if asked.w_output is None:
        return mixed.flatten(2), shown
    output = torch.einsum("blhv,hvo->blo", mixed, asked.w_output.unflatten(0, (asked.heads, -1)))
    return output if asked.b_output is None else output + asked.b_output, shown


def variants() -> list[Variant]:
    """One formula, many ways to part it into heads."""
    fused, library, heads, einsum = map(_function, (_fused, _library, _head_by_head, _einsum))
    einsum = in_float64(MultiHead, einsum)
    return [
        Variant("fused", "one product for queries, keys and values, biases as a row", widened(MultiHead, fused)),
        Variant("library", "torch's linear and scaled_dot_product_attention", widened(MultiHead, library)),
        Variant("own_dtype", "the same in the dtype itself, half types too", MultiHead.checked(library)),
        Variant("head_by_head", "one head at a time, biases first", widened(MultiHead, heads)),
        Variant("einsum", "einsum with an axis for the heads, in float64", einsum),
    ]
