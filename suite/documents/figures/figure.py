"""What a figure is: its title, the place in the documents where it stands, and what computes its picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from attnsuite.documents.figures.picture import Picture


@dataclass(frozen=True)
class DrawnFigure:
    """A figure that can be drawn. Its name is that of the file that holds it."""

    title: str
    source: str
    """The document and its section, such as `doc-004, section 11.2`; empty for a figure of our own."""
    picture: Callable[..., Picture]
    """Computes what is shown, with the options of the command line that the figure takes."""
    takes: tuple[str, ...] = ()
    """The options that it takes, by name: sentence, attention, causal, seed."""
    trains: str = ""
    """The translator that it shows, which is trained unless the cache has it; empty for figures without one."""
