"""`attnsuite report`: results/ → pages and charts, from files alone and without torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

from attnsuite.cli.requests import Report
from attnsuite.model import UsageError
from attnsuite.model.uncollected import uncollected
from attnsuite.report import write_report
from attnsuite.report.charting import absent
from attnsuite.results import read
from attnsuite.results.history import update


def run(options: Report) -> None:
    """Write the pages of every machine, and print their paths."""
    report(options.results)


@uncollected()
def report(results: Path, only: str = "", lines: TextIO | None = None, draws: bool = True) -> None:
    """Write the pages of all machines in `results`; print the paths, of one machine if `only`, to `lines`.

    Without `draws` there are no charts. Raises UsageError if there are no results.
    """
    machines = read(results)
    if not machines:
        raise UsageError(f"{results} holds no results; `attnsuite run` makes them")
    update(results)
    if draws and absent():
        print(f"no charts: {', '.join(absent())} is not installed (the extra `charts`)", file=sys.stderr)
    for path in write_report(results, machines, draws):
        if not only or path.parent.name == only or path.parent == results:
            print(path, file=lines)
