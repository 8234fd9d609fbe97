"""`attnsuite run`: its options."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from attnsuite.commands.declared.common import ContractName, Device, DryRun, Except, Folder, Isolate, Jobs, Targets


@dataclass(frozen=True)
class Run:
    """The main job: check everything, time it, write the tables. An interrupted run is resumed."""

    targets: Targets = field(default_factory=list)
    device: Device = "cpu"
    results: Folder = Path("results")
    isolate: Isolate = False
    jobs: Jobs = 1
    except_: Except = field(default_factory=list)
    contract: ContractName = None
    dry_run: DryRun = False

    def run(self) -> int:
        from attnsuite.commands import running

        return running.run(self)
