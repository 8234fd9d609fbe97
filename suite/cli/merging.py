"""`attnsuite merge`: results of several machines and shards → one folder, and its tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from attnsuite.cli.reporting import report
from attnsuite.model import Run, escaped
from attnsuite.report import refuse_foreign_index
from attnsuite.results.store.merging import merged
from attnsuite.results.store.parts import asked


def merge(folders: Sequence[Path], into: Path, partial: bool) -> None:
    """Merge what is in these folders, say what became of it, and make the tables of the machines that are new.

    Raises UsageError for what cannot be merged; nothing is written then.
    """
    refuse_foreign_index(into)
    found = merged(folders, into, partial)
    for note in found.notes:
        print(escaped(note), file=sys.stderr)
    for run, rows in found.runs:
        print(escaped(f"{into / run.machine.name}: {in_words(run)}: {rows} rows, the run {run.id}"))
    report(into, found.machines[0] if len(found.machines) == 1 else "")


def in_words(run: Run) -> str:
    """What was asked, and how much of it was merged."""
    shards = f", {len(run.shards)} of {run.divided} shards" if run.shards else ""
    return f"{asked(run)}{shards}"
