"""How tensors lie in memory, and cases whose tensors lie otherwise than row by row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from attnsuite.cases.call import Call, Calls
from attnsuite.cases.case import Case, ChangedCase

INPUTS = ("query", "key", "value")
JUNK = 977
"""What stands in memory between and around the numbers: finite, and large enough to show when it is read."""


def contiguous(tensor: Tensor) -> Tensor:
    """Row by row."""
    return tensor.contiguous()


def transposed_heads(tensor: Tensor) -> Tensor:
    """b s h e in memory, seen as b h s e: what a projection leaves behind."""
    return tensor.transpose(-2, -3).contiguous().transpose(-2, -3)


def column_major(tensor: Tensor) -> Tensor:
    """The last two axes exchanged in memory."""
    return tensor.mT.contiguous().mT


def strided(tensor: Tensor) -> Tensor:
    """Every second element of a wider tensor."""
    wide = _junk(tensor, *tensor.shape[:-1], 2 * tensor.shape[-1])
    wide[..., ::2] = tensor
    return wide[..., ::2]


def sliced(tensor: Tensor) -> Tensor:
    """A slice of a tensor with more rows and columns, as of a cache or a packed projection."""
    *lead, rows, columns = tensor.shape
    wide = _junk(tensor, *lead, rows + 3, columns + 5)
    wide[..., 1 : rows + 1, 2 : columns + 2] = tensor
    return wide[..., 1 : rows + 1, 2 : columns + 2]


def offset(tensor: Tensor) -> Tensor:
    """Contiguous, but not at the start of its storage, and at an odd address."""
    return _inside(tensor, 3, tensor.numel() + 8)


def padded(tensor: Tensor, around: float = JUNK) -> Tensor:
    """Contiguous within a much larger storage: reading past the end finds what is around it, not a fault."""
    return _inside(tensor, 2 * tensor.numel(), tensor.numel() * 5 + 4096, around)


def expanded(tensor: Tensor) -> Tensor:
    """Stride 0 along batch and heads: every item is the first one."""
    return tensor[:1, :1].expand(tensor.shape)


def expanded_rows(tensor: Tensor) -> Tensor:
    """Stride 0 along rows: every row is the first one, as of a gradient that came from a sum."""
    return tensor[..., :1, :].expand(tensor.shape)


def expanded_everywhere(tensor: Tensor) -> Tensor:
    """Stride 0 along every axis: one number, as the gradient of a sum sends."""
    return tensor[(slice(0, 1),) * tensor.dim()].expand(tensor.shape)


def scattered(tensor: Tensor) -> Tensor:
    """The same numbers with gaps, from the last axis to the first: no two axes can be viewed as one."""
    gaps = _junk(tensor, *reversed(tensor.shape), 2)
    view = gaps[..., 0].permute(tuple(reversed(range(tensor.dim()))))
    return view.copy_(tensor)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": contiguous,
    "transposed_heads": transposed_heads,
    "column_major": column_major,
    "strided": strided,
    "sliced": sliced,
    "offset": offset,
    "expanded": expanded,
    "expanded_rows": expanded_rows,
    "expanded_everywhere": expanded_everywhere,
    "padded": padded,
}
"""The layouts that a case of attention asks by name."""


class LayoutCase(ChangedCase):
    """Another case, whose calls are laid out by a function."""

    def __init__(self, of: Case, lay: Callable[[Call], Call]) -> None:
        super().__init__(of)
        self.lay = lay

    def calls(self, dtype: str) -> Calls:
        return tuple(map(self.lay, self.of.calls(dtype)))


def out_of_order(of: Case) -> Case:
    """A case whose tensors have gaps in memory and run from the last axis to the first."""
    return LayoutCase(of, _scattered)


def as_one_tensor(call: Call) -> Call:
    """The call of self-attention: the query is given as key and value as well."""
    query = call.tensors["query"]
    return replace(call, tensors={**call.tensors, "key": query, "value": query}, same_tensor=INPUTS)


def _scattered(call: Call) -> Call:
    tensors, weights = (
        {name: scattered(tensor) for name, tensor in each.items()} for each in (call.tensors, call.weights)
    )
    return replace(call, tensors=tensors, weights=weights)


def _junk(like: Tensor, *shape: int, junk: float = JUNK) -> Tensor:
    return torch.full(shape, junk).to(like.dtype)


def _inside(tensor: Tensor, start: int, size: int, around: float = JUNK) -> Tensor:
    """The tensor in row order, from a place of a larger storage on."""
    flat = _junk(tensor, size, junk=around)
    flat[start : start + tensor.numel()] = tensor.reshape(-1)
    return flat[start : start + tensor.numel()].view(tensor.shape)
