"""What the trained Transformer's decoder attends to among its own words, by layer and head."""

from __future__ import annotations

from attnsuite.documents.figures.figure import DrawnFigure
from attnsuite.documents.figures.picture import HeatMaps
from attnsuite.documents.figures.translation import SENTENCE, heads, translated

TITLE = "Decoder attention of a translated sentence"


def picture(sentence: str = SENTENCE, attention: str = "", seed: int = 0) -> HeatMaps:
    """Layers by heads."""
    return heads(TITLE, translated("transformer", sentence, seed, attention), ".self_attention")


FIGURE = DrawnFigure(TITLE, "doc-004, section 11.7.6", picture, ("sentence", "attention", "seed"), "transformer")
