"""`attnsuite list`: its options."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import typer

from suite.commands.declared.common import ContractName, Targets


@dataclass(frozen=True)
class List:
    """List implementations: what each supports, why some are missing. Or the workloads that are timed."""

    targets: Targets = field(default_factory=list)
    contract: ContractName = None
    workloads: Annotated[bool, typer.Option("--workloads", help="list what `bench` times of each contract instead")] = (
        False
    )

    def run(self) -> None:
        from suite.commands import listing

        (listing.show_workloads if self.workloads else listing.show)(self.targets, self.contract)
