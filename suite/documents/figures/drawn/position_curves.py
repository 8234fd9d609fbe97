"""Four columns of the positional encoding, as curves over the position."""

from __future__ import annotations

from attnsuite.documents.figures.encoding import BY, POSITIONS, encoding
from attnsuite.documents.figures.figure import DrawnFigure
from attnsuite.documents.figures.picture import Curves, Panel, series

TITLE = "Positional encoding, columns 6 to 9"
COLUMNS = range(6, 10)
"""The document's: a sine and a cosine of 0.178 radians a position, and of 0.1."""


def picture() -> Curves:
    """One panel."""
    values = encoding()
    drawn = [series(f"column {column}", range(POSITIONS), values[:, column]) for column in COLUMNS]
    return Curves(TITLE, BY, (Panel("", tuple(drawn)),), 1, "position", "encoding", size=(520, 220))


FIGURE = DrawnFigure(TITLE, "doc-004, section 11.6.3", picture)
