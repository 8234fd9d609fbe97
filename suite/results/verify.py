"""Verification of stored runs: hashes, types and ranges of every file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from attnsuite.model import Refusal, Run, UsageError
from attnsuite.model.garbage_collection import gc_paused
from attnsuite.results.format import FORMER, KINDS, RUN, DamagedFile, altered, read_rows, read_run


@gc_paused()
def verify(machine: Path) -> list[Refusal]:
    """The errors in a machine's folder: altered, missing and unknown files, and damaged rows."""
    former = [Refusal(str(machine / name), "", "a file of an earlier format") for name in FORMER]
    refusals = [refusal for refusal in former if Path(refusal.path).exists()]
    for folder in sorted(path.parent for path in machine.glob(f"*/{RUN}")):
        try:
            run = read_run(folder)
        except DamagedFile as damaged:
            refusals.append(damaged.refusal)
        except UsageError as error:
            refusals.append(Refusal(str(folder / RUN), "", str(error).removeprefix(f"{folder / RUN}: ")))
        else:
            refusals += [*_files(folder, run), *_rows(folder)]
    return refusals


def _files(folder: Path, run: Run) -> Iterator[Refusal]:
    if not run.finished:
        again = f"the command that began it ({run.request[:200]!r}) goes on with the same --results"
        yield Refusal(str(folder / RUN), "", f"the run is not finished; {again}")
        return
    yield from altered(folder, run)


def _rows(folder: Path) -> Iterator[Refusal]:
    for kind in KINDS:
        refusals: list[Refusal] = []
        try:
            read_rows(folder, kind, refusals)
        except DamagedFile as damaged:
            refusals.append(damaged.refusal)
        yield from refusals
