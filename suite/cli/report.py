"""`attnsuite report`: results/ → pages and charts, from files alone and without torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

from attnsuite.cli.requests import Report
from attnsuite.model import UsageError
from attnsuite.model.uncollected import uncollected
from attnsuite.report import past, write_index, write_machine, write_report
from attnsuite.results.store import read_outcomes


def run(options: Report) -> None:
    """Write the pages of every machine, and print their paths."""
    report(options.results)


@uncollected()
def report(results: Path, only: str = "", lines: TextIO | None = None, draws: bool = True) -> None:
    """Write the pages of every machine in `results`, or of one, and the index; print their paths to `lines`.

    Without `draws` there are no charts. Raises UsageError if there are no results.
    """
    machines = read_outcomes(results)
    if not machines:
        raise UsageError(f"{results} holds no results; `attnsuite run` makes them")
    for name, recorded in machines.items():
        if name == (only or name):
            written, note = write_machine(results / name, recorded, draws)
            if note:
                print(f"{results / name}: {note}", file=sys.stderr)
            for path in written:
                print(path, file=lines)
    page = write_report(results, machines, past(results))
    print(write_index(results, machines), file=lines)
    print(page, file=lines)
