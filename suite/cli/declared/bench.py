"""`attnsuite bench`: its options."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnsuite.cli.declared.common import (
    ContractName,
    Device,
    DryRun,
    Dtypes,
    Except,
    Folder,
    InShard,
    Shapes,
    SignatureName,
    Targets,
    TimeLimit,
    check_shapes,
    place,
    seconds,
    whole,
)
from attnsuite.model import PROFILES
from attnsuite.model.limits import TIME_LIMIT
from attnsuite.model.options import (
    check_cache,
    check_dtypes,
    check_name_of_device,
    check_processes,
    check_profile,
    check_seconds,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attnsuite.benchmark import Request
    from attnsuite.registry import Declaration


@dataclass(frozen=True)
class Bench:
    """How fast, how frugal? Timed in rounds beside the baseline. Rows are added to results/, tables made of them."""

    targets: Targets = field(default_factory=list)
    contract: ContractName = None
    workloads: Annotated[
        list[str],
        typer.Option("--workload", metavar="PATTERN", help="only workloads of this name or group; may be repeated"),
    ] = field(default_factory=list)
    shapes: Shapes = field(default_factory=list)
    dtypes: Dtypes = field(default_factory=list)
    baseline: Annotated[
        str,
        typer.Option(
            "--baseline", metavar="TARGET", help="what the others are compared with, in place of the contract's own"
        ),
    ] = ""
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
            help="of timed calls per implementation and table; more if a verdict needs more rounds; by default the "
            "profile's, and 0.3 where workloads are named",
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
    anew: Annotated[
        bool, typer.Option("--ask-again", help="ask conformance again, also where nothing has changed since")
    ] = False
    time_limit: TimeLimit = TIME_LIMIT
    except_: Except = field(default_factory=list)
    results: Folder = Path("results")
    shard: InShard = None
    signature: SignatureName = None
    dry_run: DryRun = False
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes",
            metavar="N",
            parser=whole("--processes"),
            help="processes of each implementation that take samples in turns; 2 where a whole profile is timed",
        ),
    ] = None

    def run(self) -> int:
        from attnsuite.cli.interrupting import until_interrupted

        return until_interrupted(self._timed, None)

    def _timed(self) -> int:
        self.refuse()
        self.foresee()
        from attnsuite.cli import benching

        return benching.bench(
            self.targets,
            self.contract,
            self.request,
            self.json,
            self.results,
            self.except_,
            self.signature or "",
            self.baseline,
            self.anew,
            self.dry_run,
            self.foresee,
        )

    def refuse(self) -> None:
        """Raise UsageError for what is wrong whatever is timed, before torch is imported, which takes seconds."""
        check_name_of_device(self.device)
        if self.profile is not None:
            check_profile(self.profile, PROFILES)
        check_dtypes(self.dtypes)
        check_cache(self.cache)
        check_seconds("time limit", self.time_limit)
        check_seconds("budget", 1.0 if self.budget is None else self.budget)
        if self.processes is not None:
            check_processes(self.processes)
        if self.threads:
            from attnsuite.benchmark.processes import check_threads

            check_threads(self.threads)
        check_shapes(self.shapes)

    def foresee(self, named: Sequence[Declaration] = ()) -> None:
        """Have processes begin to import what is timed and weighed, while this one finds out what that is.

        Once that is `named`, they import what its workloads need, and walls are looked for where it needs any.
        """
        if not self.dry_run and not all(each.shipped for each in named):
            from attnsuite.worker.sandbox import begin_to_look

            begin_to_look()
        if self.device == "cpu" and not self.dry_run:
            from attnsuite.benchmark.processes import cores, expect_measured

            threads = self.threads[0] if self.threads else 1
            if 1 <= threads <= len(cores()):
                gradients = self.backward or self.step or self.profile in ("standard", "full")
                expect_measured(threads, [each.contract for each in named], gradients=gradients)

    def request(self, baseline: str = "") -> Request:
        """What is timed, and how. `baseline` is the name of the implementation that was found for the option."""
        from attnsuite.benchmark import Request
        from attnsuite.cli.interrupting import heed

        heed()
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
            tuple(self.dtypes),
            tuple(self.shapes),
            baseline,
            self.shard,
            self.processes,
        )
