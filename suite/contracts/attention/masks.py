"""Masks to draw: which keys a query may attend to, by pattern; and how a user types a mask."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attnsuite.contracts.attention.lazily import np, torch

if TYPE_CHECKING:
    from torch import Tensor

    from attnsuite.cases.tensors import Generator

    Array = np.ndarray[Any, Any]
    Pattern = Callable[[Generator, tuple[int, ...]], Array]


def _random(random: Generator, shape: tuple[int, ...]) -> Array:
    """A third of the keys hidden. Each query sees its own position, so that no row is empty under causal either."""
    allowed: Array = random.random(shape) > 0.33
    rows = allowed[None] if allowed.ndim == 1 else allowed  # a view: … rows keys
    if 0 not in rows.shape:
        chosen = np.arange(rows.shape[-2])
        rows[..., chosen, chosen % rows.shape[-1]] = True
    return allowed


def _padding(random: Generator, shape: tuple[int, ...]) -> Array:
    """Each batch item has a length of its own; keys beyond it are hidden."""
    lengths = (np.arange(shape[0]) * 3 + shape[-1] // 2) % shape[-1] + 1
    return np.asarray(np.arange(shape[-1]) < lengths.reshape(-1, *[1] * (len(shape) - 1)))


def _window(random: Generator, shape: tuple[int, ...]) -> Array:
    """A band of three keys around the own position (wrapping round, so that no row is empty)."""
    distance = (np.arange(shape[-2])[:, None] - np.arange(shape[-1])) % shape[-1]
    return np.asarray(np.minimum(distance, shape[-1] - distance) <= 1)


def _empty_rows(random: Generator, shape: tuple[int, ...]) -> Array:
    """The second and the last query of every head may attend to nothing."""
    allowed = _random(random, shape)
    allowed[..., [1 % shape[-2], -1], :] = False
    return allowed


def _one_empty_row(random: Generator, shape: tuple[int, ...]) -> Array:
    """One query of one head of one batch item may attend to nothing."""
    allowed = _random(random, shape)
    allowed[(0,) * (len(shape) - 2)][0, :] = False
    return allowed


PATTERNS: dict[str, Pattern] = {
    "everything": lambda random, shape: np.ones(shape, dtype=bool),
    "nothing": lambda random, shape: np.zeros(shape, dtype=bool),
    "random": _random,
    "padding": _padding,
    "causal": lambda random, shape: np.tril(np.ones(shape, dtype=bool)),
    "window": _window,
    "empty_rows": _empty_rows,
    # every third query, the first of all, is closed to all keys; the others are open to all
    "closed_rows": lambda random, shape: np.arange(shape[-2])[:, None] % 3 != 0,
    "one_empty_row": _one_empty_row,
    # all keys but the last few are hidden: leading blocks wider than any usual tile hold nothing
    "late": lambda random, shape: np.arange(shape[-1]) >= shape[-1] - 5,
    "early": lambda random, shape: np.arange(shape[-1]) < 5,
    # each query sees one key, a different one
    "single": lambda random, shape: np.arange(shape[-1]) == (np.arange(shape[-2])[:, None] * 5 + 2) % shape[-1],
}
"""Functions of random numbers and a shape that return the visible keys, broadcastable to the shape."""


@dataclass(frozen=True)
class Mask:
    """A mask to draw. `axes` names the axes it has, 1 for a broadcast one: "bhls", "b11s", "ls"."""

    kind: str = "bool"
    pattern: str = "random"
    axes: str = "bhls"
    hidden: float | str = -math.inf
    """The number of a float mask for hidden keys; "lowest" is the dtype's finfo.min."""

    def draw(self, random: Any, sizes: Any, dtype: torch.dtype) -> Tensor:
        """Without random numbers, a mask on the device `meta`."""
        size = {"b": sizes.batch, "h": sizes.heads, "l": sizes.queries, "s": sizes.keys, "1": 1}
        shape = tuple(size[axis] for axis in self.axes)
        if random is None:
            return torch.empty(shape, dtype=torch.bool if self.kind == "bool" else dtype, device="meta")
        allowed = torch.from_numpy(np.broadcast_to(PATTERNS[self.pattern](random, shape), shape).copy())
        if self.kind == "bool":
            return allowed
        hidden = torch.finfo(dtype).min if self.hidden == "lowest" else self.hidden
        bias = torch.from_numpy(random.normal(size=shape) * 2).to(dtype)
        return torch.where(allowed, bias, torch.tensor(hidden, dtype=dtype))


TYPED = ("random", "padding", "causal", "window", "everything")
"""The patterns that a user may name: those that leave every query some key, in the order of their use."""


def read_mask(text: str) -> Mask:
    """The mask that a text names, `bool`, `float.padding`, `bool.causal.11ls`. ValueError for anything else."""
    kind, pattern, axes = (*text.split("."), "", "")[:3] if text.count(".") < 3 else ("", "", "")
    mask = Mask(kind, pattern or Mask.pattern, axes or Mask.axes)
    if kind not in ("bool", "float") or mask.pattern not in TYPED or not re.fullmatch("[b1][h1][l1][s1]", mask.axes):
        raise ValueError(text)
    if mask.pattern in ("causal", "window") and mask.axes[-2:] != "ls":
        raise ValueError(text)
    return mask


def written_mask(mask: Mask) -> str:
    """The text of a mask, without what is usual."""
    pattern, axes = mask.pattern != Mask.pattern, mask.axes != Mask.axes
    return ".".join([mask.kind, *([mask.pattern] if pattern or axes else []), *([mask.axes] if axes else [])])
