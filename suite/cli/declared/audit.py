"""`attnsuite audit`: its options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from attnsuite.cli.declared.common import Folder, seconds, whole
from attnsuite.model import UsageError


@dataclass(frozen=True)
class Audit:
    """Audit the suite: deviations caught, nobody accused falsely. Writes results/audit.md."""

    only: Annotated[
        str | None,
        typer.Argument(metavar="[CONTRACT]", help="only this contract; writes nothing", show_default=False),
    ] = None
    contract: Annotated[str | None, typer.Option("--contract", metavar="C", help="the same as CONTRACT")] = None
    results: Folder = Path("results")
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", metavar="N", parser=whole("--jobs"), help="processes; one per core by default"),
    ] = None
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds",
            metavar="N",
            parser=whole("--seeds"),
            help="ask whoever is correct with the numbers of N other seeds, too; each takes minutes",
        ),
    ] = 0
    arrays: Annotated[
        int,
        typer.Option(
            "--arrays",
            metavar="N",
            parser=whole("--arrays"),
            help="draw N other combinations of features, and ask each of somebody who is correct, too",
        ),
    ] = 0
    benchmark: Annotated[
        bool,
        typer.Option(
            "--benchmark", help="audit the stopwatch instead: false claims, slowdowns found, other stopwatches"
        ),
    ] = False
    between_runs: Annotated[
        int,
        typer.Option(
            "--between-runs",
            metavar="N",
            parser=whole("--between-runs"),
            help="time the same code in N runs more, and store how far runs lie apart, for `compare`",
        ),
    ] = 0
    pause: Annotated[
        float,
        typer.Option(
            "--pause", metavar="SECONDS", parser=seconds("--pause"), help="between two of those runs: 3600 is an hour"
        ),
    ] = 0.0
    cheats: Annotated[
        bool, typer.Option("--cheats", help="submit files that try to fool the suite instead; writes cheats.md")
    ] = False

    def run(self) -> int:
        from attnsuite.cli import auditing

        if self.only and self.contract and self.only != self.contract:
            raise UsageError(f"CONTRACT is {self.only} and --contract is {self.contract}: name one contract")
        contract = self.only or self.contract
        if self.between_runs:
            from attnsuite.cli import auditing_runs

            if self.cheats or self.benchmark or contract or self.seeds or self.arrays or self.jobs:
                raise UsageError("--between-runs goes with --results and --pause alone: what is timed is fixed")
            return auditing_runs.audit_between_runs(self.results, self.between_runs, self.pause)
        if self.pause:
            raise UsageError("--pause goes with --between-runs alone")
        if self.cheats and (self.benchmark or contract or self.seeds or self.arrays):
            raise UsageError("--cheats goes with --results alone: what is submitted, and how it is asked, is fixed")
        if self.cheats:
            return auditing.audit_cheats(self.results, self.jobs)
        if self.benchmark and contract:
            raise UsageError("--contract does not go with --benchmark: the stopwatch is audited, not a contract")
        if self.benchmark and (self.seeds or self.arrays):
            raise UsageError("--seeds and --arrays do not go with --benchmark: nothing is drawn there")
        if self.benchmark:
            return auditing.audit_stopwatch(self.results, self.jobs)
        return auditing.audit(self.results, self.jobs, contract, self.seeds, self.arrays)
