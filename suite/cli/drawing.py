"""`attnsuite draw`: the documents' figures with our numbers, as SVG and PNG files."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from attnsuite.documents.figures import FIGURES, chosen, targets
from attnsuite.model import UsageError
from attnsuite.model.options import check_short_seed
from attnsuite.report.charting import absent


def draw(
    names: Sequence[str], folder: Path, overwrite: bool, options: Mapping[str, Any], lines: TextIO | None = None
) -> None:
    """Draw these figures into the folder, all of them where none is named; print the paths of their files.

    `options` are those that the command line gives, without those it leaves out. Raises UsageError for an unknown
    figure, an option that a figure does not take, a library that is absent, and a file that is not to be written over.
    """
    figures = chosen(names)
    for option in options:
        _check_taken(option, names, figures)
    check_short_seed(options.get("seed", 0))
    if lacking := absent():
        raise UsageError(f'drawing needs {" and ".join(lacking)}: python -m pip install "attnsuite[charts]"')
    told: set[str] = set()
    for target in targets(folder, figures, overwrite):
        figure = FIGURES[target.name]
        if figure.trains not in told | {""}:
            told.add(figure.trains)
            print(f"the {figure.trains} that translates: from the cache, or trained now, in a minute", file=sys.stderr)
        picture = figure.picture(**{name: given for name, given in options.items() if name in figure.takes})
        for path in target.write(picture):
            print(path, file=lines, flush=True)


def show(names: Sequence[str]) -> None:
    """Print these figures, all of them where none is named: title, place in the documents, options."""
    figures = chosen(names)
    width = max(map(len, figures))
    for name in figures:
        figure = FIGURES[name]
        takes = f" ({', '.join(f'--{option}' for option in figure.takes)})" if figure.takes else ""
        print(f"{name:{width}}  {figure.title}: {figure.source}{takes}")


def _check_taken(option: str, names: Sequence[str], figures: Sequence[str]) -> None:
    takers = [name for name in FIGURES if option in FIGURES[name].takes]
    strangers = [name for name in figures if name not in takers] if names else ["a figure that is named"]
    if strangers:
        says = f"{strangers[0]} takes no --{option}" if names else f"--{option} goes with {strangers[0]}"
        raise UsageError(f"{says}; figures that take it: {', '.join(takers)}")
