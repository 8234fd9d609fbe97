"""Self-attention of six tokens before and after what comes later is masked, in both of doc-003's ways."""

from __future__ import annotations

from torch import Tensor

from attnsuite.documents.figures.figure import DrawnFigure
from attnsuite.documents.figures.implementations import function, weights_of
from attnsuite.documents.figures.picture import HeatMaps, heat_map
from attnsuite.documents.figures.sentence import axes, queries_and_keys

TITLE = "The causal mask"


def weights() -> dict[str, Tensor]:
    """The weights of all tokens, those with later ones struck out, and those of causal attention."""
    query, key = queries_and_keys()
    attention = function("attention/matmul")
    every = weights_of(attention, query, key)
    return {
        "unmasked": every,
        "masked after the softmax": every.tril(),
        "causal: rows sum to 1 again": weights_of(attention, query, key, is_causal=True),
    }


def picture() -> HeatMaps:
    """The three of them side by side."""
    across, down = axes()
    maps = tuple(heat_map(matrix, title) for title, matrix in weights().items())
    by = "attention/matmul in float64, identity as values"
    return HeatMaps(TITLE, by, maps, columns=3, across=across, down=down)


FIGURE = DrawnFigure(TITLE, "doc-003, section 3.5.1", picture)
