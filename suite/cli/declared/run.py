"""`attnsuite run`: its options."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from attnsuite.cli.declared.common import (
    ContractName,
    Device,
    DryRun,
    Except,
    Folder,
    Full,
    Isolate,
    Jobs,
    Targets,
)


@dataclass(frozen=True)
class Run:
    """The main job: test what ships, time it, write the tables. What compiles for minutes is tested on a sample."""

    targets: Targets = field(default_factory=list)
    device: Device = "cpu"
    results: Folder = Path("results")
    isolate: Isolate = False
    jobs: Jobs = None
    full: Full = False
    except_: Except = field(default_factory=list)
    contract: ContractName = None
    dry_run: DryRun = False

    def run(self) -> int:
        from attnsuite.cli.interrupting import until_interrupted

        return until_interrupted(self._run, None)

    def _run(self) -> int:
        from attnsuite.cli import running

        return running.run(self)
