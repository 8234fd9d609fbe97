"""Correct attention in other styles: a case that fails one of them is wrong."""

from __future__ import annotations

from attnsuite.cases import Variant
from attnsuite.contracts.attention.variants import further, styles


def variants() -> list[Variant]:
    """All correct variants, sorted by name. Libraries are among the shipped implementations."""
    return sorted([*styles.variants(), *further.variants()], key=lambda variant: variant.name)
