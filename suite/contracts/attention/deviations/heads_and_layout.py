"""Mistakes in which head, which axis and which place of the storage is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from suite.asking.staged import instead_of
from suite.contracts.attention.deviations.asked import Asked
from suite.contracts.attention.deviations.staged import Dense, Whole, correct


def _pick_heads(tensor: Tensor, which: Sequence[int]) -> Tensor:
    return tensor[..., list(which), :, :]


def _groups(tensor: Tensor, heads: int) -> bool:
    return tensor.dim() > 2 and tensor.shape[-3] != heads


@instead_of(
    Dense.expand_heads, "query head i reads key head i mod g: tiled instead of interleaved", source="onnx issue 7274"
)
def tiles_key_heads(key: Tensor, value: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    which = [head % key.shape[-3] for head in range(heads)] if _groups(key, heads) else range(0)
    return (_pick_heads(key, which), _pick_heads(value, which)) if which else Dense.expand_heads(key, value, heads)


@instead_of(Dense.expand_heads, "the keys' heads are interleaved but the values' are tiled")
def tiles_value_heads_only(key: Tensor, value: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    which = [head % key.shape[-3] for head in range(heads)] if _groups(key, heads) else range(0)
    expanded = Dense.expand_heads(key, value, heads)
    return (expanded[0], _pick_heads(value, which)) if which else expanded


@instead_of(
    Dense.expand_heads, "with grouped heads, all query heads read the first key head", source="multi-query paths"
)
def reads_first_key_head(key: Tensor, value: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    which = [0] * heads if _groups(key, heads) else []
    return (_pick_heads(key, which), _pick_heads(value, which)) if which else Dense.expand_heads(key, value, heads)


@instead_of(Dense.expand_heads, "with grouped heads, a group is taken to be two query heads")
def assumes_groups_of_two(key: Tensor, value: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    which = [min(head // 2, key.shape[-3] - 1) for head in range(heads)] if _groups(key, heads) else []
    return (_pick_heads(key, which), _pick_heads(value, which)) if which else Dense.expand_heads(key, value, heads)


@instead_of(Dense.expand_heads, "with grouped heads, the keys' heads are read in reverse")
def reverses_key_heads(key: Tensor, value: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    expanded = Dense.expand_heads(key, value, heads)
    return (expanded[0].flip(-3), expanded[1].flip(-3)) if _groups(key, heads) else expanded


@instead_of(Dense.expand_heads, "all heads read the first head's keys")
def shares_first_heads_keys(key: Tensor, value: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    key, value = Dense.expand_heads(key, value, heads)
    return (key if key.dim() == 2 else key[..., :1, :, :].expand_as(key)), value


@instead_of(Dense.expand_heads, "enable_gqa is not served: grouped heads raise an error")
def refuses_grouped_heads(key: Tensor, value: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    if _groups(key, heads):
        raise RuntimeError(f"The size of tensor a ({heads}) must match the size of tensor b ({key.shape[-3]})")
    return key, value


@instead_of(
    Whole.answer,
    "... h l e is read as ... l h e, where the sizes allow it: heads attend to heads",
    source="onnx issue 7118",
)
def attends_over_heads(asked: Asked) -> Any:
    square = asked.rank > 2 and asked.queries == asked.keys and not asked.grouped and asked.mask is None
    if not square:
        return correct(asked)
    return correct(_each(asked, lambda tensor: tensor.transpose(-2, -3))).transpose(-2, -3)


@instead_of(
    Dense.finish, "the output ... l h v is reshaped to ... h l v instead of transposed", source="onnx issue 7118"
)
def reshapes_output_instead_of_transposing(output: Tensor, asked: Asked) -> Any:
    turned = output.transpose(-2, -3).reshape(output.shape) if asked.rank > 2 else output
    return turned.to(asked.query.dtype)


@instead_of(Dense.finish, "the output has the axes ... l h v instead of ... h l v")
def returns_heads_last(output: Tensor, asked: Asked) -> Any:
    return (output.transpose(-2, -3) if asked.rank > 2 else output).to(asked.query.dtype)


@instead_of(Dense.finish, "the output has the query's width instead of the value's", source="pytorch issue 176767")
def returns_query_width(output: Tensor, asked: Asked) -> Any:
    fit = torch.nn.functional.pad(output, (0, asked.width - asked.value_width))
    return fit.to(asked.query.dtype)


@instead_of(Dense.finish, "columns of the values beyond the query's width give 0", source="pytorch issue 176767")
def forgets_columns_beyond_query_width(output: Tensor, asked: Asked) -> Any:
    beyond = torch.arange(asked.value_width, device=output.device) >= asked.width
    return output.masked_fill(beyond, 0.0).to(asked.query.dtype)


@instead_of(Dense.combine, "values narrower than the query raise an error", source="pytorch issue 176767")
def refuses_narrow_values(weights: Tensor, value: Tensor, asked: Asked) -> Tensor:
    if value.shape[-1] < 4:
        raise RuntimeError("value: last dimension must be at least 4")
    return Dense.combine(weights, value, asked)


def misread(tensor: Tensor, strides: Sequence[int], offset: int) -> Tensor:
    """What other strides find in the storage, wrapping around its end; the gradient is the tensor's own."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    if count == 0 or tensor.numel() == 0:
        return tensor
    place = torch.zeros((), dtype=torch.long, device=tensor.device) + offset
    for size, stride in zip(tensor.shape, strides, strict=True):
        place = place.unsqueeze(-1) + torch.arange(size, device=tensor.device) * stride
    found = torch.as_strided(tensor.detach(), (count,), (1,), 0)[place % count]
    if not tensor.requires_grad:
        return found
    finite = tensor.nan_to_num(neginf=0.0)
    return found + (finite - finite.detach())


def as_contiguous(tensor: Tensor) -> Tensor:
    """What a kernel sees that takes a tensor for contiguous."""
    if tensor.is_contiguous():
        return tensor
    return misread(tensor, torch.empty(tensor.shape, device="meta").stride(), int(tensor.storage_offset()))


@instead_of(
    Dense.receive, "the query's strides are ignored", source="pytorch issues 112577, 181133; flash-attention issue 2665"
)
def reads_query_as_contiguous(asked: Asked) -> Asked:
    return replace(asked, query=as_contiguous(asked.query))


@instead_of(
    Dense.receive, "the key's strides are ignored", source="pytorch issues 112577, 181133; flash-attention issue 2665"
)
def reads_key_as_contiguous(asked: Asked) -> Asked:
    return replace(asked, key=as_contiguous(asked.key))


@instead_of(
    Dense.receive, "the value's strides are ignored", source="pytorch issues 112577, 181133; flash-attention issue 2665"
)
def reads_value_as_contiguous(asked: Asked) -> Asked:
    return replace(asked, value=as_contiguous(asked.value))


@instead_of(Dense.receive, "the mask's strides are ignored", source="pytorch issue 112577")
def reads_mask_as_contiguous(asked: Asked) -> Asked:
    return asked if asked.mask is None else replace(asked, mask=as_contiguous(asked.mask))


def _each(asked: Asked, read: Callable[[Tensor], Tensor]) -> Asked:
    return replace(asked, query=read(asked.query), key=read(asked.key), value=read(asked.value))


@instead_of(
    Dense.receive,
    "query, key and value are read from the start of their storage",
    source="views into a fused projection",
)
def ignores_storage_offset(asked: Asked) -> Asked:
    return _each(asked, lambda tensor: misread(tensor, tensor.stride(), 0) if tensor.storage_offset() else tensor)


@instead_of(
    Dense.receive,
    "the last axis of query, key and value is taken to have stride 1",
    source="flash-attention issue 2665",
)
def assumes_dense_last_axis(asked: Asked) -> Asked:
    def read(tensor: Tensor) -> Tensor:
        dense = tensor.stride(-1) == 1 or tensor.shape[-1] < 2
        return tensor if dense else misread(tensor, (*tensor.stride()[:-1], 1), int(tensor.storage_offset()))

    return _each(asked, read)


@instead_of(
    Dense.receive,
    "expanded axes of query, key and value, with stride 0, are walked as if they were stored",
    source="flash-attention issue 2189",
)
def walks_expanded_axes(asked: Asked) -> Asked:
    def read(tensor: Tensor) -> Tensor:
        expanded = any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        return as_contiguous(tensor) if expanded else tensor

    return _each(asked, read)


@instead_of(
    Dense.receive,
    "an expanded mask, with stride 0, is walked as if it were stored",
    source="flash-attention issue 2189",
)
def walks_expanded_mask(asked: Asked) -> Asked:
    mask = asked.mask
    if mask is None or all(stride or size < 2 for size, stride in zip(mask.shape, mask.stride(), strict=True)):
        return asked
    return replace(asked, mask=as_contiguous(mask))


@instead_of(
    Dense.receive, "the key is read with the query's strides", source="flash-attention issue 818 (sibling's layout)"
)
def reads_key_with_strides_of_query(asked: Asked) -> Asked:
    query, key = asked.query, asked.key
    if query.shape != key.shape or query.stride() == key.stride():
        return asked
    return replace(asked, key=misread(key, query.stride(), int(key.storage_offset())))
