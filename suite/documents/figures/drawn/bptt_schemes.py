"""Which steps gradients reach in backpropagation through time: full, truncated and randomised."""

from __future__ import annotations

from typing import Any

from attnsuite.documents.figures.figure import DrawnFigure
from attnsuite.documents.figures.picture import Axis, HeatMaps, heat_map, rounded
from attnsuite.documents.figures.through_time import flow

TITLE = "Backpropagation through time in three schemes"
TEXT = "the time machine"
"""The first characters of the book that the document's figure is about, one a step."""
TRUNCATE = 4
"""Steps that a gradient passes where it is truncated, its own among them."""
KEEP = 0.8
"""With this probability a gradient is passed on, and then divided by it: in the mean it is cut at every fifth step."""
SEED = 20
"""Of a draw that cuts about as often as it should: 4 times in 15 steps, 3 being the mean."""
SCHEMES: dict[str, dict[str, Any]] = {
    "full": {},
    f"truncated after {TRUNCATE} steps": {"truncate": TRUNCATE},
    f"randomised, one draw, π = {KEEP}": {"keep": KEEP, "seed": SEED},
}


def picture() -> HeatMaps:
    """A map for each scheme: from the loss of a step, down, to the hidden states that its gradient reaches, across."""
    flows = {title: flow(len(TEXT), **scheme) for title, scheme in SCHEMES.items()}
    letters = tuple("␣" if letter == " " else letter for letter in TEXT)
    return HeatMaps(
        TITLE,
        "by what factor gradients flow, measured with recurrent_gradient/autograd: one unit, its weight 1",
        tuple(heat_map(matrix, title) for title, matrix in flows.items()),
        columns=3,
        across=Axis("hidden state of step", letters),
        down=Axis("loss of step", letters),
        bar="factor",
        domain=(0.0, rounded(max(float(matrix.max()) for matrix in flows.values()))),
        cell=16,
        written=False,
    )


FIGURE = DrawnFigure(TITLE, "doc-004, sections 9.7.1.1 to 9.7.1.4", picture)
