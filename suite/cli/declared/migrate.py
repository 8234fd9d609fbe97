"""`attnsuite migrate`: its options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from attnsuite.cli.declared.common import Folder


@dataclass(frozen=True)
class Migrate:
    """Bring results/ of an earlier attnsuite into today's layout; nothing is lost, also where it is interrupted."""

    results: Folder = Path("results")

    def run(self) -> None:
        from attnsuite.cli import migrating

        migrating.migrate(self.results)
