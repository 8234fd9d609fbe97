"""The documents' figures with our numbers: implementations in, SVG and PNG files out."""

from suite.figures.catalogue import FIGURES as FIGURES
from suite.figures.catalogue import chosen as chosen
from suite.figures.figure import DrawnFigure as DrawnFigure
from suite.figures.files import Target as Target
from suite.figures.files import targets as targets
