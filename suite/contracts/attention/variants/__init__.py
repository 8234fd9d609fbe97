"""Correct attention in foreign styles: whoever accuses one of them is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnsuite.cases import Variant


def variants() -> list[Variant]:
    """All strangers, sorted by name. Foreign libraries are imported when they are called, not here."""
    from attnsuite.contracts.attention.variants import kernels, libraries, maxima, orders, signatures

    modules = (orders, kernels, maxima, signatures, libraries)
    found = [stranger for module in modules for stranger in module.variants()]
    return sorted(found, key=lambda stranger: stranger.name)
