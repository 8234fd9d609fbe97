"""Implementations of attention with exactly one named mistake each: those that concern no single feature.

They prove that cases can fail, name the mistake of a wrong submission, and document the field's known bugs. A feature's
own mistakes stand in its file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnsuite.cases import Mutant


def controls() -> dict[str, Callable[..., Any]]:
    """The mutants' own computations without any mistake: all of them must pass."""
    from attnsuite.contracts.attention.computation.call import as_attention
    from attnsuite.contracts.attention.computation.forward import Dense, Tiled
    from attnsuite.contracts.attention.computation.gradients import Backward, Recomputed

    found = {
        "correct_dense": Dense(),
        "correct_tiled": Tiled(),
        "correct_backward": Backward(),
        "correct_recomputed": Recomputed(),
    }
    return {name: as_attention(computation) for name, computation in found.items()}


def mutants() -> list[Mutant]:
    """All mutants, of this folder and of the features, sorted by name; names are unique."""
    from attnsuite.cases.contract import collected

    modules = (*_modules("mutants"), *_modules("features"))
    return collected(thing for module in modules for thing in vars(module).values())


def _modules(folder: str) -> Iterator[ModuleType]:
    home = Path(__file__).parents[1]
    for file in sorted((home / folder).rglob("*.py")):
        parts = file.relative_to(home).with_suffix("").parts
        if parts != (folder, "__init__"):
            yield import_module(".".join(("attnsuite.contracts.attention", *parts)).removesuffix(".__init__"))
