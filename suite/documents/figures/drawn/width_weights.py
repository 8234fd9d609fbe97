"""The weights behind the estimates with Gaussians of four widths."""

from attnsuite.documents.figures.figure import DrawnFigure
from attnsuite.documents.figures.pooling import BY_WIDTH, weight_maps

TITLE = "Weights of the training points: Gaussians of four widths"
FIGURE = DrawnFigure(TITLE, "doc-004, section 11.2", lambda: weight_maps(TITLE, BY_WIDTH))
