"""Transformers with exactly one named mistake each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from suite.asking import Deviation
from suite.asking.staged import collected, imprecise
from suite.contracts.models import eager
from suite.contracts.models.transformer.deviations import blocks, calls, checking, masking
from suite.contracts.models.transformer.deviations.staged import Transformer


def controls() -> dict[str, Callable[..., Any]]:
    """The computation without any mistake."""
    return {"correct": Transformer()}


def deviations() -> list[Deviation]:
    """All deviations, sorted by name."""
    own = [thing for room in (blocks, masking, calls, checking) for thing in vars(room).values()]
    return collected([*own, *eager.deviations(Transformer), *imprecise(Transformer)])
