"""Implementations of attention with exactly one named mistake each.

They prove that cases can fail, name the mistake of a wrong submission, and document the field's known bugs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suite.asking import Deviation

ROOMS = (
    "scaling",
    "masking",
    "mask_axes",
    "causal",
    "softmax",
    "heads_and_layout",
    "rounding",
    "tiling",
    "sizes",
    "dropout",
    "gradients",
    "behaviour",
    "batches",
    "checking",
    "combinations",
    "barely",
)


def controls() -> dict[str, Callable[..., Any]]:
    """The deviations' own computations without any mistake: all of them must pass."""
    from suite.contracts.attention.deviations import correct

    return {
        "correct_dense": correct.correct_dense,
        "correct_tiled": correct.correct_tiled,
        "correct_backward": correct.correct_backward,
    }


def deviations() -> list[Deviation]:
    """All deviations, sorted by name; names are unique."""
    from importlib import import_module

    from suite.asking.staged import collected

    modules = [import_module(f"{__name__}.{room}") for room in ROOMS]
    return collected(
        thing for module in modules for thing in [*vars(module).values(), *getattr(module, "parametric", tuple)()]
    )
