"""The seam between PyTorch's tensors and the arrays of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


def _as_it_is(array: Any) -> Any:
    return array


@dataclass(frozen=True)
class Arrays:
    """A type of arrays: how a tensor becomes one and is made of one, and how both are written in Python.

    `back` returns what is no array of its kind as it is, for the judge to name. Where gradients `flow`, tensors are
    passed through PyTorch's autograd; `with_gradient` calls a function of arrays so that they flow by other means.
    """

    name: str = "torch"
    to: Callable[[Any], Any] = _as_it_is
    back: Callable[[Any], Any] = _as_it_is
    written_to: str = "{}"
    written_back: str = "{}"
    imports: str = ""
    """The line that the written form needs."""
    library: str = ""
    """The library whose arrays they are; empty for those that are always installed."""
    with_gradient: Callable[..., Any] | None = None
    """(function of arrays, tensors) → the output as a tensor of PyTorch's graph."""

    @property
    def flow(self) -> bool:
        """Whether gradients reach the inputs."""
        return self.name == "torch" or self.with_gradient is not None
