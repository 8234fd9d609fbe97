"""Recurrent encoder–decoders with exactly one named mistake each."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suite.contracts.base import Deviation

ROOMS = ("states", "attending", "cells", "steps", "checking")


def controls() -> dict[str, Callable[..., Any]]:
    """The computation without any mistake."""
    from suite.contracts.seq2seq_attention.deviations.staged import Recurrent

    return {"correct": Recurrent()}


def deviations() -> list[Deviation]:
    """All deviations, sorted by name."""
    from suite.contracts.seq2seq_attention.deviations.branches import branches
    from suite.contracts.seq2seq_attention.deviations.staged import Recurrent
    from suite.contracts.staged import collected, imprecise

    rooms = [import_module(f"{__name__}.{room}") for room in ROOMS]
    found = (thing for room in rooms for thing in vars(room).values())
    return collected([*found, *branches(), *imprecise(Recurrent)])
