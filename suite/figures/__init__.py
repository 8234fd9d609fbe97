"""The documents' figures with our numbers: implementations in, SVG and PNG files out."""

from attnsuite.figures.catalogue import FIGURES as FIGURES
from attnsuite.figures.catalogue import chosen as chosen
from attnsuite.figures.figure import DrawnFigure as DrawnFigure
from attnsuite.figures.files import Target as Target
from attnsuite.figures.files import targets as targets
