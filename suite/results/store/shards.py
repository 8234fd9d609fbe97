"""Which part of a request is answered already in a folder of results."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from attnsuite.model import Run
from attnsuite.model.uncollected import uncollected
from attnsuite.results.store import contents
from attnsuite.results.store.contents import AnyRecord
from attnsuite.results.store.place import place
from attnsuite.results.store.writer import identity


@uncollected()
def answered(results: Path, run: Run) -> tuple[AnyRecord, ...] | None:
    """What a finished run of the same request, sources, versions and machine has recorded; None without one."""
    machine, _ = place(results, run.machine)
    there = contents.read(results / machine.name)
    like = identity(replace(run, machine=machine))
    alike = [name for name, old in there.runs.items() if old.finished and identity(old) == like]
    return tuple(record for name, record in there.recorded if name == alike[-1]) if alike else None
