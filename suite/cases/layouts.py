"""Memory layouts of tensors, and cases whose tensors have another layout than row by row."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from attnsuite.cases.call import Call, Calls
from attnsuite.cases.case import Case, ChangedCase

INPUTS = ("query", "key", "value")
JUNK = 977
"""The numbers between a tensor's numbers in memory: finite, and large enough to show when they are read."""
BEHIND = float("nan")
"""The numbers around a slice, as in a cache that is not filled: a product with 0 shows that they are read."""


def strided(tensor: Tensor) -> Tensor:
    """Every second element of a wider tensor."""
    wide = _junk(tensor, *tensor.shape[:-1], 2 * tensor.shape[-1])
    return wide[..., ::2].copy_(tensor)


def sliced(tensor: Tensor) -> Tensor:
    """A slice of a tensor with more rows and columns, as of a cache or a packed projection."""
    *lead, rows, columns = tensor.shape
    wide = _junk(tensor, *lead, rows + 3, columns + 5, junk=BEHIND)
    return wide[..., 1 : rows + 1, 2 : columns + 2].copy_(tensor)


def padded(tensor: Tensor, around: float = JUNK) -> Tensor:
    """Contiguous within a much larger storage: reading past the end gives the numbers around it, not a fault."""
    return _inside(tensor, 2 * tensor.numel(), tensor.numel() * 5 + 4096, around)


def scattered(tensor: Tensor) -> Tensor:
    """With gaps, from the last axis to the first: no two axes can be viewed as one."""
    gaps = _junk(tensor, *reversed(tensor.shape), 2)
    return gaps[..., 0].permute(tuple(reversed(range(tensor.dim())))).copy_(tensor)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": Tensor.contiguous,
    "transposed_heads": lambda x: x.transpose(-2, -3).contiguous().transpose(-2, -3),  # as a projection leaves them
    "time_major": lambda x: x.movedim(-2, 0).contiguous().movedim(0, -2),  # l b h e
    "column_major": lambda x: x.mT.contiguous().mT,
    "strided": strided,
    "sliced": sliced,
    "offset": lambda x: _inside(x, 3, x.numel() + 8, BEHIND),  # contiguous, at an odd address in a larger storage
    "expanded": lambda x: x[:1, :1].expand(x.shape),  # stride 0 along batch and heads
    "expanded_items": lambda x: x[:1].expand(x.shape),  # a prefix that all items share
    "expanded_heads": lambda x: x[:, :1].expand(x.shape),  # one head for all, as multi-query attention expands it
    "expanded_last": lambda x: x[..., :1].expand(x.shape),
    "expanded_rows": lambda x: x[..., :1, :].expand(x.shape),  # as in the gradient of a sum over rows
    "expanded_everywhere": lambda x: x[(slice(0, 1),) * x.dim()].expand(x.shape),  # as in the gradient of a sum
    "padded": padded,
}
"""The layouts that a case of attention names."""


class LayoutCase(ChangedCase):
    """Another case, with the layout of its calls changed by a function."""

    def __init__(self, base: Case, lay: Callable[[Call], Call]) -> None:
        super().__init__(base)
        self.lay = lay

    def calls(self, dtype: str) -> Calls:
        return tuple(map(self.lay, self.base.calls(dtype)))


def out_of_order(base: Case) -> Case:
    """A case with scattered tensors and weights."""
    return LayoutCase(base, _scattered)


def as_one_tensor(call: Call) -> Call:
    """The call of self-attention: the query is key and value as well."""
    query = call.tensors["query"]
    return replace(call, tensors={**call.tensors, "key": query, "value": query}, same_tensor=INPUTS)


def _scattered(call: Call) -> Call:
    tensors, weights = (
        {name: scattered(tensor) for name, tensor in named.items()} for named in (call.tensors, call.weights)
    )
    return replace(call, tensors=tensors, weights=weights)


def _junk(like: Tensor, *shape: int, junk: float = JUNK) -> Tensor:
    return torch.full(shape, junk if like.is_floating_point() else JUNK).to(like.dtype)


def _inside(tensor: Tensor, start: int, size: int, around: float = JUNK) -> Tensor:
    """The tensor in row order, at a place in a larger storage."""
    flat = _junk(tensor, size, junk=around)
    return flat[start : start + tensor.numel()].copy_(tensor.reshape(-1)).view(tensor.shape)
