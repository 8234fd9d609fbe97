"""Softmax over scores of which some are masked, by a length for each item and for each query."""

from __future__ import annotations

import torch
from torch import Tensor

from attnsuite.contracts.sources.documents import examples
from attnsuite.documents.figures.figure import DrawnFigure
from attnsuite.documents.figures.implementations import function
from attnsuite.documents.figures.picture import HeatMap, HeatMaps, heat_map, numbered

TITLE = "Masked softmax"
EXAMPLES = ("doc-004/11.3.2.1-literal-lens-1d", "doc-004/11.3.2.1-literal-lens-2d")
"""The scores that the examples have; the document's own are drawn without a seed."""


def weights(example: str) -> tuple[Tensor, Tensor]:
    """The weights, b l s, and the lengths, b or b l."""
    given = examples()[example].inputs
    scores, lengths = torch.tensor(given["scores"], dtype=torch.float64), torch.tensor(given["valid_lens"])
    return function("attention_weights/eager")(scores, lengths=lengths), lengths


def picture() -> HeatMaps:
    """A row of maps for each way to give lengths, an item in each column."""
    maps: list[HeatMap] = []
    for example in EXAMPLES:
        found, lengths = weights(example)
        maps += [
            heat_map(item, f"length{'s' * of.dim()} {of.tolist()}") for item, of in zip(found, lengths, strict=True)
        ]
    return HeatMaps(
        TITLE,
        "attention_weights/eager in float64; a key beyond the length gets weight 0, exactly",
        tuple(maps),
        columns=2,
        across=numbered("key", range(4), 1),
        down=numbered("query", range(2), 1),
        cell=36,
    )


FIGURE = DrawnFigure(TITLE, "doc-004, section 11.3.2.1", picture)
