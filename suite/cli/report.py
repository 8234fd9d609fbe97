"""`attnsuite report`: write pages and charts from stored results; merge other folders first."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from attnsuite.cli.requests import Report
from attnsuite.cli.targets import print_hint
from attnsuite.model import UsageError, escaped
from attnsuite.model.garbage_collection import gc_paused
from attnsuite.report import refuse_foreign_index, write_report
from attnsuite.report.charts import missing_packages
from attnsuite.results import merge as merged
from attnsuite.results import read
from attnsuite.results.history import update
from attnsuite.results.merge import request


def run(options: Report) -> None:
    """Write the pages of every machine, and print their paths; first merge the runs of the folders, if any."""
    if options.folders:
        merge(options.folders, options.results, options.partial)
    elif options.partial:
        raise UsageError("--partial needs folders to merge: attnsuite report DIR... --partial")
    else:
        report(options.results)


def merge(folders: Sequence[Path], into: Path, partial: bool = False) -> None:
    """Merge what is in these folders, print each run, and write the pages of the machines that are new.

    Raises UsageError for what cannot be merged; nothing is written then.
    """
    refuse_foreign_index(into)
    result = merged(folders, into, partial)
    for note in result.notes:
        print_hint(escaped(note))
    for run, rows in result.runs:
        shard = f", shard {run.shard}" if run.shard else ""
        print(
            escaped(f"merged {into / run.machine.name / run.id}: {request(run)}{shard}, {rows} row{'s' * (rows != 1)}")
        )
    report(into, result.machines[0] if len(result.machines) == 1 else "")


@gc_paused()
def report(results: Path, only: str = "", lines: TextIO | None = None, draws: bool = True) -> None:
    """Write the pages of all machines in `results`; print the paths, of one machine if `only`, to `lines`.

    Without `draws` there are no charts. Raises UsageError if there are no results.
    """
    machines = read(results)
    if not machines:
        raise UsageError(f"{results} holds no results; `attnsuite run` makes them")
    update(results)
    if draws and missing_packages():
        print(f"no charts: {', '.join(missing_packages())} is not installed (the extra `charts`)", file=sys.stderr)
    for path in write_report(results, machines, draws):
        if not only or path.parent.name == only or path.parent == results:
            print(path, file=lines)
