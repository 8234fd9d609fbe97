"""Correct attention in other styles: a case that fails one of them is wrong."""

from __future__ import annotations

from attnsuite.cases import Variant
from attnsuite.contracts.attention.variants import further, libraries, styles


def variants() -> list[Variant]:
    """All correct variants, sorted by name. Libraries are imported when they are called, not here."""
    return sorted([*styles.variants(), *further.variants(), *libraries.variants()], key=lambda variant: variant.name)
