"""Mistakes in which head, which axis and which place of the storage is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from suite.contracts.attention.computation.asked import Asked
from suite.contracts.attention.computation.dense import Dense, Whole, correct
from suite.contracts.attention.deviations.memory import as_contiguous, misread


@Whole.instead(
    "answer",
    "... h l e is read as ... l h e, where the sizes allow it: heads attend to heads",
    source="onnx issue 7118",
)
def attends_over_heads(asked: Asked) -> Any:
    square = asked.rank > 2 and asked.queries == asked.keys and not asked.grouped and asked["attn_mask"] is None
    if not square:
        return correct(asked)
    return correct(_each(asked, lambda tensor: tensor.transpose(-2, -3))).transpose(-2, -3)


@Dense.instead(
    "finish", "the output ... l h v is reshaped to ... h l v instead of transposed", source="onnx issue 7118"
)
def reshapes_output_instead_of_transposing(output: Tensor, asked: Asked) -> Any:
    turned = output.transpose(-2, -3).reshape(output.shape) if asked.rank > 2 else output
    return turned.to(asked.query.dtype)


@Dense.instead("finish", "the output has the axes ... l h v instead of ... h l v")
def returns_heads_last(output: Tensor, asked: Asked) -> Any:
    return (output.transpose(-2, -3) if asked.rank > 2 else output).to(asked.query.dtype)


@Dense.instead("finish", "the output has the query's width instead of the value's", source="pytorch issue 176767")
def returns_query_width(output: Tensor, asked: Asked) -> Any:
    fit = torch.nn.functional.pad(output, (0, asked.width - asked.value_width))
    return fit.to(asked.query.dtype)


@Dense.instead("finish", "columns of the values beyond the query's width give 0", source="pytorch issue 176767")
def forgets_columns_beyond_query_width(output: Tensor, asked: Asked) -> Any:
    beyond = torch.arange(asked.value_width, device=output.device) >= asked.width
    return output.masked_fill(beyond, 0.0).to(asked.query.dtype)


@Dense.instead("combine", "values narrower than the query raise an error", source="pytorch issue 176767")
def refuses_narrow_values(weights: Tensor, value: Tensor, asked: Asked) -> Tensor:
    if value.shape[-1] < 4:
        raise RuntimeError("value: last dimension must be at least 4")
    return Dense.combine(weights, value, asked)


@Dense.instead(
    "receive", "the query's strides are ignored", source="pytorch issues 112577, 181133; flash-attention issue 2665"
)
def reads_query_as_contiguous(asked: Asked) -> Asked:
    return replace(asked, query=as_contiguous(asked.query))


@Dense.instead(
    "receive", "the key's strides are ignored", source="pytorch issues 112577, 181133; flash-attention issue 2665"
)
def reads_key_as_contiguous(asked: Asked) -> Asked:
    return replace(asked, key=as_contiguous(asked.key))


@Dense.instead(
    "receive", "the value's strides are ignored", source="pytorch issues 112577, 181133; flash-attention issue 2665"
)
def reads_value_as_contiguous(asked: Asked) -> Asked:
    return replace(asked, value=as_contiguous(asked.value))


def _each(asked: Asked, read: Callable[[Tensor], Tensor]) -> Asked:
    return replace(asked, query=read(asked.query), key=read(asked.key), value=read(asked.value))


@Dense.instead(
    "receive",
    "query, key and value are read from the start of their storage",
    source="views into a fused projection",
)
def ignores_storage_offset(asked: Asked) -> Asked:
    return _each(asked, lambda tensor: misread(tensor, tensor.stride(), 0) if tensor.storage_offset() else tensor)


@Dense.instead(
    "receive",
    "the last axis of query, key and value is taken to have stride 1",
    source="flash-attention issue 2665",
)
def assumes_dense_last_axis(asked: Asked) -> Asked:
    def read(tensor: Tensor) -> Tensor:
        dense = tensor.stride(-1) == 1 or tensor.shape[-1] < 2
        return tensor if dense else misread(tensor, (*tensor.stride()[:-1], 1), int(tensor.storage_offset()))

    return _each(asked, read)


@Dense.instead(
    "receive",
    "expanded axes of query, key and value, with stride 0, are walked as if they were stored",
    source="flash-attention issue 2189",
)
def walks_expanded_axes(asked: Asked) -> Asked:
    def read(tensor: Tensor) -> Tensor:
        expanded = any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        return as_contiguous(tensor) if expanded else tensor

    return _each(asked, read)


@Dense.instead(
    "receive", "the key is read with the query's strides", source="flash-attention issue 818 (sibling's layout)"
)
def reads_key_with_strides_of_query(asked: Asked) -> Asked:
    query, key = asked.query, asked.key
    if query.shape != key.shape or query.stride() == key.stride():
        return asked
    return replace(asked, key=misread(key, query.stride(), int(key.storage_offset())))
