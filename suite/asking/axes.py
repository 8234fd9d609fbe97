"""Which axes a contract's tensors have, and the check that they do.

    Axes(x="… e", w1="e f", b1="f", w2="f v", b2="v")

Letters are sizes: a letter that stands twice is one size. `…` at the front is any number of axes, alike for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

ANY = "…"
Sizes = dict[str, int]


class Axes:
    """The axes of tensors by name, each a word of letters."""

    def __init__(self, **due: str) -> None:
        self.due = due

    def check(self, given: Mapping[str, Any]) -> Sizes:
        """The size of each letter. ValueError where a tensor does not fit; what is None or not given is left out."""
        sizes: Sizes = {}
        leading: tuple[int, ...] | None = None
        for name, axes in self.due.items():
            tensor, letters = given.get(name), axes.split()
            if tensor is None:
                continue
            shape = tuple(tensor.shape)
            if letters[0] == ANY:
                letters, before = letters[1:], shape[: max(0, len(shape) - len(letters) + 1)]
                leading, shape = before if leading is None else leading, shape[len(before) :]
                if before != leading:
                    raise ValueError(f"{name} has the leading axes {before}, not {leading}")
            if len(shape) != len(letters) or any(
                sizes.setdefault(letter, size) != size for letter, size in zip(letters, shape, strict=True)
            ):
                raise ValueError(f"{name} is {tuple(tensor.shape)}, not {axes} with {sizes}")
        return sizes


def broadcasts(mask: Tensor, *shape: int) -> bool:
    """Whether the mask can be laid over this shape without making it larger."""
    sizes = zip(reversed(mask.shape), reversed(shape), strict=False)
    return mask.dim() <= len(shape) and all(size in (1, due) for size, due in sizes)
