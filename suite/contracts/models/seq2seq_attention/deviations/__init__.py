"""Recurrent encoder–decoders with exactly one named mistake each."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suite.asking import Deviation

ROOMS = ("states", "attending", "cells", "steps", "checking")


def controls() -> dict[str, Callable[..., Any]]:
    """The computation without any mistake."""
    from suite.contracts.models.seq2seq_attention.deviations.staged import Recurrent

    return {"correct": Recurrent()}


def deviations() -> list[Deviation]:
    """All deviations, sorted by name."""
    from suite.asking.staged import collected, imprecise
    from suite.contracts.models.seq2seq_attention.deviations.branches import branches
    from suite.contracts.models.seq2seq_attention.deviations.staged import Recurrent

    rooms = [import_module(f"{__name__}.{room}") for room in ROOMS]
    found = (thing for room in rooms for thing in vars(room).values())
    return collected([*found, *branches(), *imprecise(Recurrent)])
