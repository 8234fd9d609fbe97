"""The trained Bahdanau model's attention while it translates a sentence: which source words each step attends to."""

from __future__ import annotations

from attnsuite.documents.figures.figure import DrawnFigure
from attnsuite.documents.figures.picture import Axis, HeatMaps, heat_map
from attnsuite.documents.figures.translation import SENTENCE, translated

TITLE = "Bahdanau attention of a translated sentence"


def picture(sentence: str = SENTENCE, seed: int = 0) -> HeatMaps:
    """One map: steps of the decoder by words of the source and its end."""
    of = translated("seq2seq_attention", sentence, seed)
    return HeatMaps(
        TITLE,
        f"{of.said}; {of.by} in float32",
        (heat_map(of.weights["attention"][0]),),
        columns=1,
        across=Axis("key", of.source),
        down=Axis("query: what the decoder reads", of.target),
        cell=36,
    )


FIGURE = DrawnFigure(TITLE, "doc-004, section 11.4.3", picture, ("sentence", "seed"), "seq2seq_attention")
