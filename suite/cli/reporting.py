"""`attnsuite report`: results/ → tables and charts, from files alone and without torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

from attnsuite.model import UsageError
from attnsuite.model.uncollected import uncollected
from attnsuite.report import past, write_index, write_machine, write_report
from attnsuite.results.store import read_outcomes


@uncollected()
def report(results: Path, only: str = "", lines: TextIO | None = None, draws: bool = True) -> None:
    """Write the tables and charts of every machine in `results`, or of one, and the index; print their paths.

    Charts are made where it `draws`.

    Paths go to `lines`, or to standard output. Raises UsageError if there are no results.
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
