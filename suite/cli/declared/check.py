"""`attnsuite check`: its options."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from attnsuite.cli.declared.common import (
    ContractName,
    Device,
    Except,
    InShard,
    Isolate,
    Jobs,
    SignatureName,
    Targets,
    TimeLimit,
    path,
    place,
    whole,
)
from attnsuite.model.limits import TIME_LIMIT


@dataclass(frozen=True)
class Check:
    """Is it right? Every case is asked, and mistakes are named. Each case is asked in every dtype."""

    targets: Targets = field(default_factory=list)
    contract: ContractName = None
    cases: Annotated[
        list[str],
        typer.Option("--case", metavar="PATTERN", help="only cases of this name, family or pattern; may be repeated"),
    ] = field(default_factory=list)
    dtypes: Annotated[list[str], typer.Option("--dtype", metavar="D", help="only this dtype; may be repeated")] = field(
        default_factory=list
    )
    device: Device = "cpu"
    json: Annotated[
        str | None,
        typer.Option(
            "--json",
            metavar="FILE",
            parser=place("--json", "file"),
            help="write a JSON row per outcome; - is standard output",
        ),
    ] = None
    isolate: Isolate = False
    time_limit: TimeLimit = TIME_LIMIT
    jobs: Jobs = None
    sample: Annotated[
        bool,
        typer.Option("--sample", help="test a sample: every feature and every dtype once"),
    ] = False
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="P",
            help="how features are combined: quick (the default), in which every pair meets, or full, triples too",
        ),
    ] = None
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            metavar="N",
            parser=whole("--seed"),
            help="ask other numbers, and other combinations of features; 0 by default",
        ),
    ] = 0
    except_: Except = field(default_factory=list)
    results: Annotated[
        Path | None,
        typer.Option(
            "--results",
            metavar="DIR",
            parser=path("--results", "folder"),
            help="store the outcomes there, without timing anything, and make the tables; resumed if interrupted",
        ),
    ] = None
    shard: InShard = None
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", "-x", help="stop at the first failure that no finding records")
    ] = False
    last_failed: Annotated[
        bool,
        typer.Option("--last-failed", help="ask what failed when it was last asked; everything, if nothing did"),
    ] = False
    junit: Annotated[
        str | None,
        typer.Option(
            "--junit", metavar="FILE", parser=place("--junit", "file"), help="write the outcomes as JUnit's XML"
        ),
    ] = None
    signature: SignatureName = None
    known_gaps: Annotated[
        str | None,
        typer.Option(
            "--known-gaps",
            metavar="FILE",
            parser=place("--known-gaps", "file"),
            help="lines `case pattern: reason`: these failures are known, and must not pass unnoticed",
        ),
    ] = None
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="fail for bad input that is accepted instead of refused, as those that ship here do"
        ),
    ] = False
    github: Annotated[
        bool,
        typer.Option("--github", help="in GitHub Actions: annotate the files that fail, and add to the job's summary"),
    ] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="print what fails, and nothing else")] = False
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="list the bad input that is accepted, too")] = False

    def run(self) -> int:
        from attnsuite.cli.interrupting import until_interrupted

        return until_interrupted(self._asked, self.junit)

    def _asked(self) -> int:
        from attnsuite.cli import outcomes

        return outcomes.check(self)
