"""The documents' check of heat maps: queries that find their own key, and no other."""

from __future__ import annotations

import torch

from attnsuite.documents.figures.figure import DrawnFigure
from attnsuite.documents.figures.implementations import function, weights_of
from attnsuite.documents.figures.picture import HeatMaps, heat_map, numbered

TITLE = "Every query finds its own key"
SIZE = 10
"""Queries and keys; this copy of the document does not say how many it has."""
SHARP = 50.0
"""The scale: e⁻⁵⁰ is the weight of any other key, which is 0 to more digits than a double has."""


def picture() -> HeatMaps:
    """One map, with ones on its diagonal."""
    unit = torch.eye(SIZE, dtype=torch.float64)
    weights = weights_of(function("attention/matmul"), unit, unit, scale=SHARP)
    numbers = range(SIZE)
    return HeatMaps(
        TITLE,
        "attention/matmul in float64; queries and keys are the same unit vectors",
        (heat_map(weights.round(decimals=12)),),
        columns=1,
        across=numbered("key", numbers, 1),
        down=numbered("query", numbers, 1),
        cell=22,
    )


FIGURE = DrawnFigure(TITLE, "doc-004, section 11.1.1", picture)
