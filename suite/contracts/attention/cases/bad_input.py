"""Inputs that no attention is defined for: they must raise, not answer. Asked in a process of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from suite.asking import Call, Case
from suite.asking.layouts import Laid, padded
from suite.asking.refused import Refused
from suite.contracts.attention.cases.given import attention

Shapes = Mapping[str, tuple[int, ...]]
USUAL: Shapes = {"query": (2, 4, 5, 8), "key": (2, 4, 7, 8), "value": (2, 4, 7, 8)}


class BadInput(Refused):
    """Shapes or options that must be refused. Tensors lie inside larger storage, so that reading too far finds junk."""

    def __init__(self, name: str, why: str, shapes: Shapes, options: Mapping[str, Any] | None = None) -> None:
        unusual: dict[str, Any] = {**USUAL, **shapes}
        case = replace(attention(name, why, **unusual), options=options or {})
        super().__init__(Laid(case, _padded))


def _padded(call: Call) -> Call:
    return replace(call, tensors={name: padded(tensor) for name, tensor in call.tensors.items()})


def bad_input() -> list[Case]:
    """Bad input raises before any work."""
    return [
        BadInput("bad_input/widths_differ", "a query of width 8 and keys of width 12", {"key": (2, 4, 7, 12)}),
        BadInput("bad_input/narrow_keys", "a query of width 8 and keys of width 4", {"key": (2, 4, 7, 4)}),
        BadInput("bad_input/more_keys_than_values", "9 keys beside 7 values", {"key": (2, 4, 9, 8)}),
        BadInput("bad_input/more_values_than_keys", "7 keys beside 9 values", {"value": (2, 4, 9, 8)}),
        BadInput("bad_input/batches_differ", "a batch of 2 queries and 3 keys", {"key": (3, 4, 7, 8), "value": (3, 4, 7, 8)}),
    ]  # fmt: skip
