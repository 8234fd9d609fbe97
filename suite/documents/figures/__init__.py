"""The documents' figures with our numbers: implementations in, SVG and PNG files out."""

from attnsuite.documents.figures.catalogue import FIGURES as FIGURES
from attnsuite.documents.figures.catalogue import chosen as chosen
from attnsuite.documents.figures.figure import DrawnFigure as DrawnFigure
from attnsuite.documents.figures.files import Target as Target
from attnsuite.documents.figures.files import targets as targets
