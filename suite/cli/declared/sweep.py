"""`attnsuite sweep`: its options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from attnsuite.cli.declared.common import DryRun, path, whole
from attnsuite.model import UsageError

ENGINES = ("local", "slurm")
ATTEMPTS = 3
"""How often a shard is started at most where the command line does not say: a machine that fails now and then is got
over, and what kills whoever asks it does not go on for ever."""


def engine(word: str) -> str:
    """One of ENGINES. Raises UsageError for anything else."""
    if word not in ENGINES:
        raise UsageError(f"--launch: {' and '.join(ENGINES)} are known, not {word!r:.80}")
    return word


@dataclass(frozen=True)
class Sweep:
    """Many shards of `check` and `bench`, as a file says: started, resumed, merged. The same command goes on."""

    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.toml",
            parser=path("FILE.toml", "file"),
            help="shards = 8, tables [check] and [bench] with the options of these commands, [slurm], [versions]",
        ),
    ]
    launch: Annotated[
        str,
        typer.Option(
            "--launch", metavar="ENGINE", parser=engine, help="local (the default): processes here; slurm: a cluster"
        ),
    ] = "local"
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            metavar="N",
            parser=whole("--jobs"),
            help="shards that run at once; by default as many as there are cores. One that times anything runs alone",
        ),
    ] = None
    attempts: Annotated[
        int,
        typer.Option(
            "--attempts",
            metavar="N",
            parser=whole("--attempts"),
            help="how often a shard is started at most, if its process is killed",
        ),
    ] = ATTEMPTS
    results: Annotated[
        Path | None,
        typer.Option(
            "--results",
            metavar="DIR",
            parser=path("--results", "folder"),
            help="the folder of results that all is merged into, in place of the file's",
        ),
    ] = None
    dry_run: DryRun = False

    def run(self) -> int:
        from attnsuite.cli import sweeping

        return sweeping.sweep(self)
