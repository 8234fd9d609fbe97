"""The weights behind the estimates with four kernels."""

from attnsuite.documents.figures.figure import DrawnFigure
from attnsuite.documents.figures.pooling import BY_KERNEL, weight_maps

TITLE = "Weights of the training points: four kernels"
FIGURE = DrawnFigure(TITLE, "doc-004, section 11.2", lambda: weight_maps(TITLE, BY_KERNEL))
