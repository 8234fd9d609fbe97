"""`attnsuite draw`: its options."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from attnsuite.cli.declared.common import path, whole


@dataclass(frozen=True)
class Draw:
    """Draw the documents' figures with our numbers, each as SVG and PNG."""

    figures: Annotated[
        list[str],
        typer.Argument(
            metavar="[FIGURE]...", help="names of figures, or shell patterns; all by default", show_default=False
        ),
    ] = field(default_factory=list)
    to: Annotated[
        Path,
        typer.Option("--to", metavar="DIR", parser=path("--to", "folder"), help="the folder that gets the files"),
    ] = Path("figures")
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="write over files that attnsuite has not drawn, too")
    ] = False
    list_figures: Annotated[bool, typer.Option("--list", help="list the figures, and draw nothing")] = False
    sentence: Annotated[
        str | None, typer.Option("--sentence", metavar="TEXT", help="the sentence of a figure that shows one")
    ] = None
    attention: Annotated[
        str | None, typer.Option("--attention", metavar="TARGET", help="the attention that a figure shows or uses")
    ] = None
    causal: Annotated[bool, typer.Option("--causal", help="no word attends to those after it")] = False
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="N", parser=whole("--seed"), help="for what a figure draws or trains"),
    ] = None

    def run(self) -> None:
        from attnsuite.cli import drawing

        if self.list_figures:
            drawing.show(self.figures)
            return
        given = {
            "sentence": self.sentence,
            "attention": self.attention,
            "causal": self.causal or None,
            "seed": self.seed,
        }
        options = {name: value for name, value in given.items() if value is not None}
        drawing.draw(self.figures, self.to, self.overwrite, options)
