"""`attnsuite check`: its options."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import typer

from suite.commands.declared.common import (
    ContractName,
    Device,
    Except,
    Isolate,
    Jobs,
    Targets,
    TimeLimit,
    place,
    whole,
)
from suite.records.limits import TIME_LIMIT


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
    jobs: Jobs = 1
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

    def run(self) -> int:
        from suite.commands import checking

        return checking.check(self)
