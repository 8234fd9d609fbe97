"""`attnsuite claims`: its options."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from attnsuite.cli.declared.common import Folder


@dataclass(frozen=True)
class Claims:
    """What do the documents claim, and does it hold? Each claim is one number, measured here; a row for each."""

    patterns: Annotated[
        list[str],
        typer.Argument(
            metavar="[CLAIM]...",
            help="claims of this name, topic or shell pattern; all by default",
            show_default=False,
        ),
    ] = field(default_factory=list)
    evidence: Annotated[
        list[str],
        typer.Option(
            "--evidence", metavar="E", help="only claims that are exact, drawn, trained or timed; may be repeated"
        ),
    ] = field(default_factory=list)
    results: Folder = Path("results")

    def run(self) -> int:
        from attnsuite.cli import claiming

        return claiming.claim(self.patterns, self.evidence, self.results)
