"""Numbers in the source documents, and their places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

QUANTITY_KINDS = {
    "digits": "printed digits",
    "shapes": "printed shapes or statements",
    "derived": "values derived from a definition",
}
"""How a document gives the values of an example, with a description. Derived values are defined there, not printed."""


@dataclass(frozen=True, slots=True)
class Source:
    """The place of an example in a source document, and one of its quantities."""

    example: str
    """The example's id, such as `doc-003/3.3.1-context-query-2`."""
    document: str
    section: str
    quantity: str
    given: str = ""
    """How the document gives it: a key of QUANTITY_KINDS."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Numbers of a document."""

    source: Source
    values: Any
    """Nested lists, or an array."""
    decimals: int | None = None
    """The number of printed decimals; None for numbers derived from the definition in high precision."""
    significant: int | None = None
    """The number of printed significant digits, where all numbers have as many."""
