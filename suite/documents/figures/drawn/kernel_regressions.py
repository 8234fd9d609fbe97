"""The estimates of Nadaraya and Watson with four kernels."""

from attnsuite.documents.figures.figure import DrawnFigure
from attnsuite.documents.figures.pooling import BY_KERNEL, regressions

TITLE = "Regression by attention: four kernels"
FIGURE = DrawnFigure(TITLE, "doc-004, section 11.2", lambda: regressions(TITLE, BY_KERNEL))
