"""Mistakes that show only where two things meet, so that no other family of cases can find them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from suite.asking.staged import instead_of
from suite.contracts.attention.deviations.asked import Asked
from suite.contracts.attention.deviations.backward import Backward, Saved
from suite.contracts.attention.deviations.staged import Dense, Whole, correct


@instead_of(Whole.answer, "where heads, queries and keys are equally many, (b, h, s, e) is taken for (b, s, h, e)")
def guesses_layout_from_sizes(asked: Asked) -> Any:
    if (
        asked.rank < 4
        or asked.mask is not None
        or asked.is_causal
        or len({asked.heads, asked.key_heads, asked.queries, asked.keys}) > 1
    ):
        return correct(asked)
    query, key, value = (tensor.transpose(1, 2) for tensor in (asked.query, asked.key, asked.value))
    return correct(replace(asked, query=query, key=key, value=value)).transpose(1, 2)


@instead_of(Dense.factor, "a given scale is ignored where heads are grouped")
def ignores_scale_of_grouped_heads(asked: Asked) -> float:
    return float(asked.width**-0.5) if asked.grouped else asked.factor


@instead_of(Dense.mask, "a boolean mask is ignored when there is one query, as in a decoding kernel of its own")
def ignores_bool_mask_of_one_query(asked: Asked) -> Tensor | None:
    decoding = asked.mask is not None and asked.mask.dtype == torch.bool and asked.queries == 1
    return None if decoding else asked.mask


@instead_of(Whole.answer, "True is read as hidden, and where that hides all keys of a query the answer is NaN")
def inverts_bool_mask_without_guard(asked: Asked) -> Any:
    if asked.mask is None or asked.mask.dtype != torch.bool or asked.mask.dim() == 0:
        return correct(asked)
    output = correct(replace(asked, mask=~asked.mask))
    open_rows = asked.mask.all(-1, keepdim=True) if asked.mask.shape[-1] else asked.mask.any(-1, keepdim=True)
    return torch.where(open_rows, torch.nan, output)


@instead_of(Dense.mask, "a float mask is ignored when there is one query, as in a decoding kernel of its own")
def ignores_float_mask_of_one_query(asked: Asked) -> Tensor | None:
    decoding = asked.mask is not None and asked.mask.dtype != torch.bool and asked.queries == 1
    return None if decoding else asked.mask


@instead_of(Dense.float_mask, "a float mask is divided by the scale and multiplied by it again: 0 · −inf when it is 0")
def divides_float_mask_by_scale(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
    return scores + mask / asked.factor * asked.factor if asked.factor == 0 else scores + mask


@instead_of(Whole.answer, "grouped heads are ignored when there is one query: all read the first key head")
def reads_first_key_head_for_one_query(asked: Asked) -> Any:
    if not asked.grouped or asked.queries > 1:
        return correct(asked)
    key, value = (tensor[..., :1, :, :].expand_as(tensor) for tensor in (asked.key, asked.value))
    return correct(replace(asked, key=key, value=value))


@instead_of(Whole.answer, "without a batch axis the last column of values of another width is not written")
def crops_values_without_batch_axis(asked: Asked) -> Any:
    output = correct(asked)
    if asked.rank != 3 or asked.value_width == asked.width:
        return output
    return output.masked_fill(torch.arange(asked.value_width) == asked.value_width - 1, 0.0)


@instead_of(
    Backward.query_gradient, "the gradient of the last query is 0 where the queries modulo 128 leave 127",
    source="pytorch issues 196678, 153799",
)  # fmt: skip
def loses_last_query_gradient_at_127_of_128(d_scores: Tensor, saved: Saved) -> Tensor:
    gradient = Backward.query_gradient(d_scores, saved)
    if saved.asked.queries % 128 != 127:
        return gradient
    last = torch.arange(saved.asked.queries) == saved.asked.queries - 1
    return gradient.masked_fill(last.unsqueeze(-1), 0.0)
