"""`attnsuite list`: its options."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import typer

from attnsuite.cli.declared.common import ContractName, Targets
from attnsuite.model import UsageError


@dataclass(frozen=True)
class List:
    """List implementations: what each supports, why some are missing. Or the cases asked, the workloads timed."""

    targets: Targets = field(default_factory=list)
    contract: ContractName = None
    workloads: Annotated[bool, typer.Option("--workloads", help="list what `bench` times of each contract instead")] = (
        False
    )

    cases: Annotated[bool, typer.Option("--cases", help="list what `check` asks of each contract instead")] = False
    patterns: Annotated[
        list[str],
        typer.Option(
            "--case",
            metavar="PATTERN",
            help="the same, only cases of this name, family or pattern",
        ),
    ] = field(default_factory=list)

    def run(self) -> None:
        from attnsuite.cli import listing

        if self.workloads and (self.cases or self.patterns):
            raise UsageError("--cases and --workloads do not go together: ask for one of them")
        if self.cases or self.patterns:
            listing.show_cases(self.targets, self.contract, self.patterns)
            return
        (listing.show_workloads if self.workloads else listing.show)(self.targets, self.contract)
