"""Mistakes that mix batch items or heads, and cheats that ignore the question."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from suite.contracts.attention.computation.asked import Asked
from suite.contracts.attention.computation.dense import Dense


def _batched(tensor: Tensor, asked: Asked) -> bool:
    return asked.rank == 4 and tensor.shape[0] > 1


@Dense.instead("widen", "all batch items read the first item's keys")
def shares_first_items_keys(asked: Asked) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = Dense.widen(asked)
    return query, (key[:1].expand_as(key) if _batched(key, asked) else key), value


@Dense.instead("finish", "all batch items get the first item's answer", source="only one batch item compared")
def repeats_first_items_answer(output: Tensor, asked: Asked) -> Any:
    output = output.to(asked.query.dtype)
    return output[:1].expand_as(output).clone() if _batched(output, asked) else output


@Dense.instead("finish", "only the first batch item is returned")
def returns_first_item(output: Tensor, asked: Asked) -> Any:
    output = output.to(asked.query.dtype)
    return output[:1] if _batched(output, asked) else output


@Dense.instead("widen", "the last key and value of a batch item are the next item's first", source="off-by-one strides")
def reads_into_next_item(asked: Asked) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = Dense.widen(asked)
    if not _batched(key, asked) or not asked.keys:
        return query, key, value
    key, value = (torch.cat([t[..., :-1, :], t.roll(-1, 0)[..., :1, :]], dim=-2) for t in (key, value))
    return query, key, value


@Dense.instead("widen", "the last key and value of a head are the next head's first", source="off-by-one strides")
def reads_into_next_head(asked: Asked) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = Dense.widen(asked)
    if asked.rank < 3 or asked.key_heads < 2 or not asked.keys:
        return query, key, value
    key, value = (torch.cat([t[..., :-1, :], t.roll(-1, -3)[..., :1, :]], dim=-2) for t in (key, value))
    return query, key, value


@Dense.instead(
    "finish",
    "only the last query is answered, the others get 0",
    source="reference-kernels 104 (last output checked)",
)
def answers_last_query_only(output: Tensor, asked: Asked) -> Any:
    first = torch.arange(output.shape[-2], device=output.device).unsqueeze(-1) < output.shape[-2] - 1
    return output.masked_fill(first, 0.0).to(asked.query.dtype)


@Dense.instead("finish", "every answer is 0", source="KernelBench 165 (zeros pass)")
def returns_zeros(output: Tensor, asked: Asked) -> Any:
    return (output * 0).to(asked.query.dtype)


@Dense.instead(
    "softmax",
    "query and key are ignored: the answer is the mean of the values",
    source="passes many fixed tolerances",
)
def returns_mean_of_values(scores: Tensor, asked: Asked) -> Tensor:
    return Dense.softmax(scores.masked_fill(scores > -torch.inf, 0.0), asked)


@Dense.instead("finish", "the query is returned, fitted to the output's width")
def returns_query(output: Tensor, asked: Asked) -> Any:
    query = torch.nn.functional.pad(asked.query, (0, asked.value_width - asked.width))
    return (query + 0 * output).to(asked.query.dtype)
