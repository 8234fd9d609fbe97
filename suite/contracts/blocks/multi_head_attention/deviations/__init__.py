"""Implementations of multi-head attention with exactly one named mistake each."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suite.asking import Deviation

ROOMS = ("maps", "heads", "weights", "dropout", "plug", "checking")


def controls() -> dict[str, Callable[..., Any]]:
    """The computation without any mistake."""
    from suite.contracts.blocks.multi_head_attention.deviations.staged import MultiHead

    return {"correct": MultiHead()}


def deviations() -> list[Deviation]:
    """All deviations, sorted by name."""
    from suite.asking.layouts import in_memory_order
    from suite.asking.staged import collected, imprecise
    from suite.contracts.blocks.multi_head_attention.deviations.staged import MultiHead

    rooms = [import_module(f"{__name__}.{room}") for room in ROOMS]
    found = [thing for room in rooms for thing in vars(room).values()]
    return collected([*found, in_memory_order(MultiHead()), *imprecise(MultiHead)])
