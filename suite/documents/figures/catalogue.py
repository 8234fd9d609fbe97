"""The figures there are: the files of `drawn/`, each of which holds one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path

from attnsuite.documents.figures import drawn
from attnsuite.documents.figures.figure import DrawnFigure
from attnsuite.model import UsageError


class _Catalogue(Mapping[str, DrawnFigure]):
    """Figures by name; a file is imported when its figure is asked for."""

    def __init__(self) -> None:
        home = Path(drawn.__file__ or "").parent
        self.names = [file.stem for file in sorted(home.glob("*.py")) if file.stem != "__init__"]

    def __getitem__(self, name: str) -> DrawnFigure:
        if name not in self.names:
            raise KeyError(name)
        found: DrawnFigure = import_module(f"{drawn.__name__}.{name}").FIGURE
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


FIGURES: Mapping[str, DrawnFigure] = _Catalogue()
"""Every figure by its name."""


def chosen(wanted: Sequence[str]) -> list[str]:
    """The names that these names or shell patterns mean, each once; all figures where none is given.

    Raises UsageError, which lists the figures, for what means none.
    """
    found: dict[str, None] = {}
    for word in wanted or ["*"]:
        meant = [name for name in FIGURES if fnmatchcase(name, word)]
        if not meant:
            raise UsageError(_unknown(word))
        found |= dict.fromkeys(meant)
    return list(found)


def _unknown(word: str) -> str:
    close = get_close_matches(word, list(FIGURES), n=1)
    hint = f": did you mean {close[0]}? There are" if close else "; there are"
    return f"unknown figure {word!r}{hint}: {', '.join(FIGURES)}"
