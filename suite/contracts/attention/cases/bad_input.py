"""Inputs that no attention is defined for: they must raise, not answer. Asked in a process of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from suite import asking
from suite.asking import Call
from suite.asking.question import MustRaise, generator
from suite.contracts.attention.cases.layouts import padded

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class BadInput(MustRaise):
    """Shapes or options that must be refused. Tensors lie inside larger storage, so that reading too far finds junk."""

    name: str
    why: str
    shapes: Shapes
    options: Mapping[str, Any] = field(default_factory=dict)

    def calls(self, dtype: str) -> tuple[Call, ...]:
        random = generator(self.name)
        usual: dict[str, tuple[int, ...]] = {"query": (2, 4, 5, 8), "key": (2, 4, 7, 8), "value": (2, 4, 7, 8)}
        tensors = {
            name: padded(torch.from_numpy(random.normal(size=shape)).to(getattr(torch, dtype)))
            for name, shape in (usual | dict(self.shapes)).items()
        }
        if "attn_mask" in tensors:
            tensors["attn_mask"] = padded(tensors["attn_mask"] > -0.5)
        return (Call(tensors, self.options),)


def bad_input() -> list[asking.Case]:
    """Bad input raises before any work."""
    return [
        BadInput("bad_input/widths_differ", "a query of width 8 and keys of width 12", {"key": (2, 4, 7, 12)}),
        BadInput("bad_input/narrow_keys", "a query of width 8 and keys of width 4", {"key": (2, 4, 7, 4)}),
        BadInput("bad_input/more_keys_than_values", "9 keys beside 7 values", {"key": (2, 4, 9, 8)}),
        BadInput("bad_input/more_values_than_keys", "7 keys beside 9 values", {"value": (2, 4, 9, 8)}),
        BadInput("bad_input/batches_differ", "a batch of 2 queries and 3 keys", {"key": (3, 4, 7, 8), "value": (3, 4, 7, 8)}),
    ]  # fmt: skip
