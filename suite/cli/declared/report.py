"""`attnsuite report`: its options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from attnsuite.cli.declared.common import Folder


@dataclass(frozen=True)
class Report:
    """Write the tables and charts of every machine in results/."""

    results: Folder = Path("results")

    def run(self) -> None:
        from attnsuite.cli import reporting

        reporting.report(self.results)
