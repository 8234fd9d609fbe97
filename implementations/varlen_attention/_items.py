"""The items of a pack, one after the other: checks, and the band of keys that each query sees."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from attnsuite.implementations._checks import check_axes

Window = tuple[int | None, int | None]


class Item(NamedTuple):
    """Query h l e, key g s e, value g s v. Query i sees the keys i + `first` to i + `last`; None is no bound."""

    query: Tensor
    key: Tensor
    value: Tensor
    first: int | None
    last: int | None

    @property
    def mask(self) -> Tensor | None:
        """True where a query sees a key, l s; None where all see all."""
        if self.first is None and self.last is None:
            return None
        ones = torch.ones(self.query.shape[1], self.key.shape[1], dtype=torch.bool, device=self.query.device)
        ones = ones if self.first is None else ones.triu(self.first)
        return ones if self.last is None else ones.tril(self.last)

    @property
    def grouped(self) -> bool:
        """Whether query heads share key heads."""
        return self.query.shape[0] != self.key.shape[0]


def packed(
    attend: Callable[[Item], Tensor],
    query: Tensor,  # q h e
    key: Tensor,  # k g e
    value: Tensor,  # k g v
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    is_causal: bool,
    window: Window | None,
) -> Tensor:  # q h v
    """The outputs of all items, h l v each, one behind the other; zeros in rows that belong to no item."""
    items = _items((query, key, value), cu_seqlens_q.tolist(), cu_seqlens_k.tolist(), *band(is_causal, window))
    outputs = [attend(item).transpose(0, 1) for item in items]
    unused = query.new_zeros(len(query) - int(cu_seqlens_q[-1]), query.shape[1], value.shape[-1])
    return torch.cat([*outputs, unused])


def _items(
    inputs: tuple[Tensor, ...], ends: list[int], key_ends: list[int], left: int | None, right: int | None
) -> Iterator[Item]:
    for (start, stop), (key_start, key_stop) in zip(pairwise(ends), pairwise(key_ends), strict=True):
        shift = key_stop - key_start - (stop - start)  # aligned at the lower right
        rows = slice(start, stop), slice(key_start, key_stop), slice(key_start, key_stop)
        parts = (tensor[part].transpose(0, 1) for tensor, part in zip(inputs, rows, strict=True))
        yield Item(*parts, None if left is None else shift - left, None if right is None else shift + right)


def band(is_causal: bool, window: Window | None) -> Window:
    """How far a query sees to the left and to the right of its position; None is no bound."""
    left, right = window or (None, None)
    return left, min(0 if right is None else right, 0) if is_causal else right


def check_inputs(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int | None,
    max_seqlen_k: int | None,
    window: Window | None,
) -> None:
    """Raise ValueError for inputs that the contract does not define."""
    sizes = check_axes(query=(query, "q h e"), key=(key, "k g e"), value=(value, "k g v"))
    if sizes["h"] % max(sizes["g"], 1):
        raise ValueError(f"key has {sizes['g']} heads, which do not divide the query's {sizes['h']}")
    _check_ends("cu_seqlens_q", cu_seqlens_q, len(query), max_seqlen_q)
    _check_ends("cu_seqlens_k", cu_seqlens_k, len(key), max_seqlen_k)
    if len(cu_seqlens_q) != len(cu_seqlens_k):
        raise ValueError(f"cu_seqlens_q is of {len(cu_seqlens_q) - 1} items, cu_seqlens_k of {len(cu_seqlens_k) - 1}")
    if window is not None and any(width is not None and width < 0 for width in window):
        raise ValueError(f"the widths of a window must be None or at least 0, not {window}")


def _check_ends(name: str, ends: Tensor, rows: int, longest: int | None) -> None:
    if ends.dim() != 1 or ends.dtype != torch.int32 or len(ends) < 2:
        raise ValueError(f"{name} must be int32 with one axis of 2 or more, not {ends.dtype} of {tuple(ends.shape)}")
    lengths = ends.diff()
    if int(ends[0]) or int(lengths.min()) < 0 or int(ends[-1]) > rows:
        raise ValueError(f"{name} must rise from 0 to at most {rows} rows, not be {ends.tolist()}")
    if longest is not None and longest < int(lengths.max()):
        raise ValueError(f"the longest item of {name} has {int(lengths.max())} rows, more than max_seqlen {longest}")
