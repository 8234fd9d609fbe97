"""`attnsuite bench`: its options."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suite.commands.declared.common import (
    ContractName,
    Device,
    Except,
    Folder,
    InShard,
    SignatureName,
    Targets,
    TimeLimit,
    place,
    seconds,
    whole,
)
from suite.records.limits import TIME_LIMIT

if TYPE_CHECKING:
    from suite.benchmark import Request


@dataclass(frozen=True)
class Bench:
    """How fast, how frugal? Timed in rounds beside the baseline. Rows are added to results/, tables made of them."""

    targets: Targets = field(default_factory=list)
    contract: ContractName = None
    workloads: Annotated[
        list[str],
        typer.Option("--workload", metavar="PATTERN", help="only workloads of this name or group; may be repeated"),
    ] = field(default_factory=list)
    profile: Annotated[
        str | None,
        typer.Option("--profile", metavar="P", help="quick (the default), standard, or full (for GPUs)"),
    ] = None
    device: Device = "cpu"
    backward: Annotated[bool, typer.Option("--backward", help="time backward, and both together, too")] = False
    step: Annotated[bool, typer.Option("--step", help="time training steps, too: of models and their blocks")] = False
    threads: Annotated[
        list[int],
        typer.Option(
            "--threads",
            metavar="N",
            parser=whole("--threads"),
            help="threads and cores on a CPU; may be repeated",
        ),
    ] = field(default_factory=list)
    cache: Annotated[
        str | None,
        typer.Option(
            "--cache",
            metavar="C",
            help="hot (default on CPU) or cold (default on CUDA); cold flushes it before each call, and takes longer",
        ),
    ] = None
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            metavar="SECONDS",
            parser=seconds("--budget"),
            help="of timed calls per implementation and table; more if a verdict needs more rounds",
        ),
    ] = None
    json: Annotated[
        str | None,
        typer.Option(
            "--json",
            metavar="FILE",
            parser=place("--json", "file"),
            help="write a JSON row per measurement; - is standard output",
        ),
    ] = None
    time_limit: TimeLimit = TIME_LIMIT
    except_: Except = field(default_factory=list)
    results: Folder = Path("results")
    shard: InShard = None
    signature: SignatureName = ""

    def run(self) -> int:
        from suite.commands import benching

        return benching.bench(
            self.targets, self.contract, self.request, self.json, self.results, self.except_, self.signature
        )

    def request(self) -> Request:
        """What is timed, and how."""
        from suite.benchmark import Request

        return Request(
            tuple(self.workloads),
            self.profile,
            self.device,
            self.backward,
            self.cache,
            tuple(self.threads),
            self.time_limit,
            self.budget,
            self.step,
            self.shard,
        )
