"""Masks to draw, and who may attend to whom in them: patterns by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attnsuite.contracts.attention.lazily import np, torch

if TYPE_CHECKING:
    from torch import Tensor

    from attnsuite.cases.tensors import Generator

    Array = np.ndarray[Any, Any]
    Pattern = Callable[[Generator, tuple[int, ...]], Array]


def everything(random: Generator, shape: tuple[int, ...]) -> Array:
    return np.ones(shape, dtype=bool)


def nothing(random: Generator, shape: tuple[int, ...]) -> Array:
    return np.zeros(shape, dtype=bool)


def random(random: Generator, shape: tuple[int, ...]) -> Array:
    """A third of the keys hidden, no row empty."""
    allowed: Array = random.random(shape) > 0.33
    rows = allowed[None] if allowed.ndim == 1 else allowed  # a view: … rows keys
    if 0 not in rows.shape:
        chosen = np.arange(rows.shape[-2])
        rows[..., chosen, (chosen * 3 + 1) % rows.shape[-1]] = True
    return allowed


def padding(random: Generator, shape: tuple[int, ...]) -> Array:
    """Each batch item has a length of its own; keys beyond it are hidden."""
    keys = shape[-1]
    lengths = (np.arange(shape[0]) * 3 + keys // 2) % keys + 1
    return np.broadcast_to(np.arange(keys) < lengths.reshape(-1, *[1] * (len(shape) - 1)), shape).copy()


def causal(random: Generator, shape: tuple[int, ...]) -> Array:
    return np.tril(np.ones(shape, dtype=bool))


def window(random: Generator, shape: tuple[int, ...]) -> Array:
    """A band of three keys around the own position (wrapping round, so that no row is empty)."""
    distance = (np.arange(shape[-2])[:, None] - np.arange(shape[-1])) % shape[-1]
    return np.broadcast_to(np.minimum(distance, shape[-1] - distance) <= 1, shape).copy()


def empty_rows(random: Generator, shape: tuple[int, ...]) -> Array:
    """The second and the last query of every head may attend to nothing."""
    allowed: Array = PATTERNS["random"](random, shape)
    allowed[..., [1 % shape[-2], -1], :] = False
    return allowed


def closed_rows(random: Generator, shape: tuple[int, ...]) -> Array:
    """Every third query, the first of all, is closed to all keys; the others are open to all."""
    open_row = np.arange(shape[-2]) % 3 != 0
    return np.broadcast_to(open_row[:, None], shape).copy()


def one_empty_row(random: Generator, shape: tuple[int, ...]) -> Array:
    """One query of one head of one batch item may attend to nothing."""
    allowed: Array = PATTERNS["random"](random, shape)
    allowed[(0,) * (len(shape) - 2)][0, :] = False
    return allowed


def late(random: Generator, shape: tuple[int, ...]) -> Array:
    """All keys but the last few are hidden: leading blocks wider than any usual tile hold nothing."""
    return np.broadcast_to(np.arange(shape[-1]) >= shape[-1] - 5, shape).copy()


def early(random: Generator, shape: tuple[int, ...]) -> Array:
    """All keys but the first few are hidden."""
    return np.broadcast_to(np.arange(shape[-1]) < 5, shape).copy()


def single(random: Generator, shape: tuple[int, ...]) -> Array:
    """Each query sees one key, a different one."""
    chosen = (np.arange(shape[-2]) * 5 + 2) % shape[-1]
    return np.broadcast_to(np.arange(shape[-1]) == chosen[:, None], shape).copy()


PATTERNS: dict[str, Any] = {
    function.__name__: function
    for function in (
        everything, nothing, random, padding, causal, window, empty_rows, closed_rows, one_empty_row, late, early, single,
    )
}  # fmt: skip


@dataclass(frozen=True)
class Mask:
    """A mask to draw. `axes` names the axes it has, 1 for a broadcast one: "bhls", "b11s", "ls"."""

    kind: str = "bool"
    pattern: str = "random"
    axes: str = "bhls"
    hidden: float | str = -math.inf
    """What a float mask holds where attention is not allowed; "lowest" is the dtype's finfo.min."""

    def draw(self, random: Any, sizes: Any, dtype: torch.dtype) -> Tensor:
        """Without random numbers, a mask on the device `meta`."""
        size = {"b": sizes.batch, "h": sizes.heads, "l": sizes.queries, "s": sizes.keys, "1": 1}
        shape = tuple(size[axis] for axis in self.axes)
        if random is None:
            return torch.empty(shape, dtype=torch.bool if self.kind == "bool" else dtype, device="meta")
        allowed = PATTERNS[self.pattern](random, shape)
        if self.kind == "bool":
            return torch.from_numpy(allowed)
        hidden = torch.finfo(dtype).min if self.hidden == "lowest" else self.hidden
        bias = torch.from_numpy(random.normal(size=shape) * 2).to(dtype)
        return torch.where(torch.from_numpy(allowed), bias, torch.tensor(hidden, dtype=dtype))
