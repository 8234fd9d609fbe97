"""`attnsuite history`: its options."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from attnsuite.cli.declared.common import Folder
from attnsuite.model import UsageError

FORMATS = ("text", "json", "csv")


def form(word: str) -> str:
    """One of FORMATS. Raises UsageError for anything else."""
    if word not in FORMATS:
        raise UsageError(f"--format: {', '.join(FORMATS)} are known, not {word!r:.80}")
    return word


@dataclass(frozen=True)
class History:
    """What became slower, larger or wrong, in which run? `history add` keeps runs of other folders and of commits."""

    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[TARGET]...|add [RESULTS]...",
            help="implementations, by name or shell pattern, whose series are shown one by one. After `add`: folders, "
            "results@COMMIT or results@A..B, whose runs are to be kept",
            show_default=False,
        ),
    ] = field(default_factory=list)
    workloads: Annotated[
        list[str], typer.Option("--workload", metavar="W", help="only workloads of this name or shell pattern")
    ] = field(default_factory=list)
    machines: Annotated[
        list[str], typer.Option("--machine", metavar="M", help="only machines of this name or shell pattern")
    ] = field(default_factory=list)
    baseline: Annotated[
        str, typer.Option("--baseline", metavar="NAME", help="ratios to this implementation; else the contract's own")
    ] = ""
    by_commit: Annotated[
        bool, typer.Option("--by-commit", help="order runs by the dates of their commits, not by when they ran")
    ] = False
    all: Annotated[bool, typer.Option("--all", help="show every series, also those without a step")] = False
    format: Annotated[
        str, typer.Option("--format", metavar="F", parser=form, help="text; json, with everything; csv, a row a point")
    ] = "text"
    results: Folder = Path("results")

    def run(self) -> None:
        from attnsuite.cli import histories

        if self.words[:1] == ["add"]:
            histories.add(self.words[1:], self.results)
        else:
            histories.show(self)
