"""What is timed: an implementation as it was declared, or a function that is here already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attnsuite.registry import Declaration, Loaded

Implementation = Declaration | Loaded


def declaration_of(implementation: Implementation) -> Declaration:
    """What the implementation says of itself."""
    return implementation.declaration if isinstance(implementation, Loaded) else implementation


def function_here(implementation: Implementation) -> Callable[..., Any] | None:
    """The function that is asked and timed in this process, because no other can import it; None where another can."""
    declaration = declaration_of(implementation)
    importable = bool(declaration.module or declaration.file)
    return implementation.function if isinstance(implementation, Loaded) and not importable else None
