"""The estimates of Nadaraya and Watson with Gaussians of four widths."""

from attnsuite.documents.figures.figure import DrawnFigure
from attnsuite.documents.figures.pooling import BY_WIDTH, regressions

TITLE = "Regression by attention: Gaussians of four widths"
FIGURE = DrawnFigure(TITLE, "doc-004, section 11.2", lambda: regressions(TITLE, BY_WIDTH))
