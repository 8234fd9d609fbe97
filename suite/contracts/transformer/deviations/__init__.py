"""Transformers with exactly one named mistake each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from suite.contracts import eager
from suite.contracts.base import Deviation
from suite.contracts.staged import collected, imprecise
from suite.contracts.transformer.deviations import blocks, calls, checking, masking
from suite.contracts.transformer.deviations.staged import Transformer


def controls() -> dict[str, Callable[..., Any]]:
    """The computation without any mistake."""
    return {"correct": Transformer()}


def deviations() -> list[Deviation]:
    """All deviations, sorted by name."""
    own = [thing for room in (blocks, masking, calls, checking) for thing in vars(room).values()]
    return collected([*own, *eager.deviations(Transformer), *imprecise(Transformer)])
