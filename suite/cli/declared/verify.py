"""`attnsuite verify`: its options."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from attnsuite.cli.declared.common import path


@dataclass(frozen=True)
class Verify:
    """Are these results as they were written? Rows, numbers, pages and sources, held against each other."""

    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="[PATH]...",
            parser=path("verify", "folder or a file"),
            help="folders of results, machines' folders, or files; results by default",
            show_default=False,
        ),
    ] = field(default_factory=list)

    def run(self) -> int:
        from attnsuite.cli import verifying

        return verifying.verify(self.paths or [Path("results")])
