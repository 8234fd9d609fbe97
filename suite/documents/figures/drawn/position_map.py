"""The positional encoding as a map, positions by columns."""

from __future__ import annotations

from attnsuite.documents.figures.encoding import BY, POSITIONS, WIDTH, encoding
from attnsuite.documents.figures.figure import DrawnFigure
from attnsuite.documents.figures.picture import Colours, HeatMaps, heat_map, numbered

TITLE = "Positional encoding"


def picture() -> HeatMaps:
    """One map, in blue."""
    return HeatMaps(
        TITLE,
        BY,
        (heat_map(encoding().round(decimals=2)),),
        columns=1,
        across=numbered("column", range(WIDTH), 4),
        down=numbered("position", range(POSITIONS), 10),
        bar="encoding",
        colours=Colours.BLUES,
        domain=(-1.0, 1.0),
        cell=9,
        written=False,
    )


FIGURE = DrawnFigure(TITLE, "doc-004, section 11.6.3", picture)
