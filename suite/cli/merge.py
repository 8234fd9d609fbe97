"""`attnsuite merge`: results of several machines and shards → one folder, and its pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attnsuite.cli.report import report
from attnsuite.cli.requests import Merge
from attnsuite.cli.targets import told
from attnsuite.model import Run, escaped
from attnsuite.report import refuse_foreign_index
from attnsuite.results import merge as merged
from attnsuite.results.merge import request


def run(options: Merge) -> None:
    """Carry out the command."""
    merge(options.folders, options.results, options.partial)


def merge(folders: Sequence[Path], into: Path, partial: bool = False) -> None:
    """Merge what is in these folders, print each run, and write the pages of the machines that are new.

    Raises UsageError for what cannot be merged; nothing is written then.
    """
    refuse_foreign_index(into)
    result = merged(folders, into, partial)
    for note in result.notes:
        told(escaped(note))
    for merged_run, rows in result.runs:
        print(escaped(f"{into / merged_run.machine.name}: {_words(merged_run)}: {rows} rows, the run {merged_run.id}"))
    report(into, result.machines[0] if len(result.machines) == 1 else "")


def _words(of: Run) -> str:
    shard = f", shard {of.shard}" if of.shard else ""
    return f"{request(of)}{shard}"
