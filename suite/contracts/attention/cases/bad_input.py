"""Inputs that no attention is defined for: they must raise, not answer. Asked in a process of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
    options: Mapping[str, float | bool] = field(default_factory=dict)

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
        BadInput("bad_input/heads_do_not_divide", "4 query heads on 3 key heads", {"key": (2, 3, 7, 8), "value": (2, 3, 7, 8)}, {"enable_gqa": True}),
        BadInput("bad_input/more_key_heads", "4 query heads on 8 key heads", {"key": (2, 8, 7, 8), "value": (2, 8, 7, 8)}, {"enable_gqa": True}),
        BadInput("bad_input/mask_of_other_keys", "a mask for 6 of 7 keys", {"attn_mask": (5, 6)}),
        BadInput("bad_input/mask_of_more_keys", "a mask for 8 keys where there are 7", {"attn_mask": (5, 8)}),
        BadInput("bad_input/mask_of_other_queries", "a mask for 4 of 5 queries", {"attn_mask": (4, 7)}),
        BadInput("bad_input/mask_of_other_heads", "a mask for 3 of 4 heads", {"attn_mask": (2, 3, 5, 7)}),
        BadInput("bad_input/mask_of_other_items", "a mask for 3 items where there are 2", {"attn_mask": (3, 1, 5, 7)}),
        BadInput("bad_input/dropout_below_zero", "dropout_p = −0.1", {}, {"dropout_p": -0.1}),
        BadInput("bad_input/dropout_above_one", "dropout_p = 1.5", {}, {"dropout_p": 1.5}),
        BadInput("bad_input/batches_differ", "a batch of 2 queries and 3 keys", {"key": (3, 4, 7, 8), "value": (3, 4, 7, 8)}),
    ]  # fmt: skip
