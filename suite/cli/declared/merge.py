"""`attnsuite merge`: its options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from attnsuite.cli.declared.common import Folder, path


@dataclass(frozen=True)
class Merge:
    """Bring the results of several machines and shards into one folder, and make its tables."""

    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...",
            parser=path("merge", "folder"),
            help="folders in which check or bench stored results, with --shard or without, at any depth",
            show_default=False,
        ),
    ]
    partial: Annotated[
        bool, typer.Option("--partial", help="merge what is there, and say which shards are missing")
    ] = False
    results: Folder = Path("results")

    def run(self) -> None:
        from attnsuite.cli import merging

        merging.merge(self.folders, self.results, self.partial)
