"""Where a document gives numbers, and the numbers that it gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

QUANTITY_KINDS = {
    "digits": "printed digits",
    "shapes": "printed shapes or statements",
    "derived": "values derived from a definition",
}
"""What a document itself gives of an example, and each in words: what is derived it defines, and prints nowhere."""


@dataclass(frozen=True, slots=True)
class Source:
    """The place of an example in a source document, and which of its quantities is meant."""

    example: str
    """The example's id, such as `doc-003/3.3.1-context-query-2`."""
    document: str
    section: str
    quantity: str
    given: str = ""
    """What of it the document itself gives: a word of GIVEN."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Numbers as a document gives them."""

    source: Source
    values: Any
    """Nested lists, or an array."""
    decimals: int | None = None
    """How many decimals were printed; None for numbers that were derived from the definition in high precision."""
    significant: int | None = None
    """How many significant digits were printed, where that is what they have in common."""
