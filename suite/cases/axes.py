"""The axes of a contract's tensors, declared as letters, and the check that tensors have them.

    Axes(x="… e", w1="e f", b1="f", w2="f v", b2="v")

Letters are sizes: a letter that stands twice is one size. `…` at the front is any number of axes, alike for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

ANY = "…"
Sizes = dict[str, Any]
"""The size of each letter; for `…` a tuple of sizes."""


class Axes:
    """The axes of each tensor by its name, as letters with spaces between them."""

    def __init__(self, **due: str) -> None:
        self.due = due

    def check(self, given: Mapping[str, Any]) -> Sizes:
        """The size of each letter. ValueError where a tensor does not fit; what is None or not given is left out."""
        sizes: Sizes = {}
        for name, axes in self.due.items():
            tensor = given.get(name)
            if tensor is not None and not _fits(axes.split(), tuple(tensor.shape), sizes):
                raise ValueError(f"{name} is {tuple(tensor.shape)}, not {axes} with {sizes}")
        return sizes


def _fits(letters: list[str], shape: tuple[int, ...], sizes: Sizes) -> bool:
    """Whether a shape has these axes, in the sizes that are known; new ones are known from now on."""
    if letters[0] == ANY:
        front = len(shape) - len(letters) + 1
        if front < 0 or sizes.setdefault(ANY, shape[:front]) != shape[:front]:
            return False
        letters, shape = letters[1:], shape[front:]
    return len(letters) == len(shape) and all(
        sizes.setdefault(letter, size) == size for letter, size in zip(letters, shape, strict=True)
    )


def broadcasts(mask: Tensor, *shape: int) -> bool:
    """Whether the mask can be laid over this shape without making it larger."""
    sizes = zip(reversed(mask.shape), reversed(shape), strict=False)
    return mask.dim() <= len(shape) and all(size in (1, due) for size, due in sizes)
