"""The parts of attention that other contracts use: visibility, dropout, and dropout's mutants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attnsuite.contracts.attention.contract import LARGE
from attnsuite.contracts.attention.feature import Grid
from attnsuite.contracts.attention.features.causal import visible
from attnsuite.contracts.attention.features.dropout import always_alike, dropout, kept, multiplier, shared
from attnsuite.contracts.attention.features.mask import has_empty_row

__all__ = ["LARGE", "always_alike", "causal_mask", "dropout", "has_empty_row", "kept", "multiplier", "shared"]


def causal_mask(queries: int, keys: int, arange: Callable[[int], Any], corner: str = "upper_left") -> Any:
    """True where causal attention sees a key, l s, as an array of numpy or torch, whichever `arange` makes."""
    return visible(Grid(arange(queries), arange(keys), queries, keys), True, {"causal": corner})
