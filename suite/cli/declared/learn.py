"""`attnsuite learn`: its options."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from attnsuite.cli.declared.common import Folder, path, whole


@dataclass(frozen=True)
class Learn:
    """Does it learn? Models are trained with an attention plugged in (attention/matmul by default), and scored."""

    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="[TARGET]...",
            help="the attentions to plug in, named as for check: matmul, file.py, file.py:function, "
            "package.module:function; without one also tasks are learned that plug none in",
            show_default=False,
        ),
    ] = field(default_factory=list)
    tasks: Annotated[
        list[str],
        typer.Option(
            "--task",
            metavar="NAME",
            help="only this task and what stands in its table; may be repeated; all by default",
        ),
    ] = field(default_factory=list)
    seeds: Annotated[
        list[int],
        typer.Option(
            "--seed",
            metavar="N",
            parser=whole("--seed"),
            help="train from this seed; may be repeated; 0 by default",
        ),
    ] = field(default_factory=list)
    epochs: Annotated[
        int | None,
        typer.Option("--epochs", metavar="N", parser=whole("--epochs"), help="instead of the task's own number"),
    ] = None
    results: Folder = Path("results")
    checkpoints: Annotated[
        Path | None,
        typer.Option(
            "--checkpoints",
            metavar="DIR",
            parser=path("--checkpoints", "folder"),
            help="the folder of checkpoints; the user's cache by default",
        ),
    ] = None
    pairs: Annotated[
        Path | None,
        typer.Option(
            "--pairs",
            metavar="FILE",
            parser=path("--pairs", "file"),
            help="translate these pairs: lines of source, tab, target, as fra.txt",
        ),
    ] = None
    examples: Annotated[
        int | None,
        typer.Option("--examples", metavar="N", parser=whole("--examples"), help="only the first N pairs"),
    ] = None

    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            metavar="N",
            parser=whole("--jobs"),
            help="trainings at once, each on one core; curves and scores are those of one (the default)",
        ),
    ] = 1

    def run(self) -> int:
        from attnsuite.cli import learning

        return learning.learn(
            self.targets,
            self.tasks,
            self.seeds,
            self.epochs,
            self.results,
            self.checkpoints,
            self.pairs,
            self.examples,
            self.jobs,
        )
