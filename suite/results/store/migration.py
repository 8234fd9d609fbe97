"""Folders of the former layout → today's, one after the other; a crash leaves each in the one layout or the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from attnsuite.model import Run, UsageError
from attnsuite.results.store import contents, files, former, together
from attnsuite.results.store.contents import Contents
from attnsuite.results.store.place import beside, said, unlike
from attnsuite.results.store.recorded import newest


def migrate(results: Path) -> Iterator[str]:
    """Bring every folder into today's layout, and say in a line what became of each.

    Runs of different machines that share a folder get one each: the newest run's machine keeps it. Raises UsageError
    where there is nothing to migrate from, or for a file that cannot be read; what is migrated by then stays so.
    """
    folders = sorted({file.parent for sign in contents.SIGNS for file in results.glob(f"*/{sign}")})
    if not folders:
        raise UsageError(f"{results} holds no results; `attnsuite run` makes them")
    for folder in folders:
        with _alone(folder):
            if former.is_former(folder):
                yield from _migrated(folder)
            else:
                yield f"{folder}: has today's layout already"


def _migrated(folder: Path) -> Iterator[str]:
    for name in former.FILES:
        if note := files.mend(folder / name):
            yield note
    before = _size(folder)
    there = former.read(folder)
    own, *others = _by_machine(there)
    its = [run.machine for run in own]
    for runs in others:  # first, because `folder` is what a migration that was killed begins with again
        machine = runs[-1].machine
        other = folder.with_name(beside(folder.name, machine, {folder.name: its}))
        _bring(_part(there, runs, other.name), other)
        yield f"{other}: the runs in {folder} that are of {said(machine, unlike(machine, its) or its[-1])}"
    kept = _part(there, own, folder.name)
    together.replace_together(folder, contents.written(kept, own[-1].id))
    counts = f"{len(kept.outcomes)} outcomes and {len(kept.measurements)} measurements"
    yield f"{folder}: {counts} migrated, {before / 1e6:.3g} MB of rows before and {_size(folder) / 1e6:.3g} MB now"


def _by_machine(there: Contents) -> list[list[Run]]:
    """The runs of each machine, each with its newest run last; the machine of the newest run of all first."""
    found: list[list[Run]] = []
    for run in reversed(there.runs.values()):
        of = next((runs for runs in found if unlike(run.machine, [each.machine for each in runs]) is None), None)
        if of is None:
            found.append([run])
        else:
            of.insert(0, run)
    return found


def _bring(brought: Contents, folder: Path) -> None:
    """Add to what another folder holds already."""
    with files.one_line(folder, "written"):
        folder.mkdir(exist_ok=True)
    with _alone(folder):
        together.replace_together(folder, contents.written(_joined(brought, contents.read(folder))))


def _part(there: Contents, runs: list[Run], name: str) -> Contents:
    """The rows of some runs, of each question the newest, in a folder of this name."""
    of = {run.id: replace(run, machine=replace(run.machine, name=name)) for run in runs}
    outcomes = newest(of, [row for row in there.outcomes if row[0] in of])
    measurements = newest(of, [row for row in there.measurements if row[0] in of])
    return Contents(of, list(outcomes), list(measurements))


def _joined(earlier: Contents, later: Contents) -> Contents:
    """Two contents of one folder; what both have is what a migration that was killed had brought there."""
    runs = {**{name: run for name, run in earlier.runs.items() if name not in later.runs}, **later.runs}
    outcomes = newest(runs, [*earlier.outcomes, *later.outcomes])
    return Contents(
        runs,
        list(outcomes),
        list(newest(runs, [*earlier.measurements, *later.measurements])),
        later.learned,
        later.claimed,
    )


def _size(folder: Path) -> int:
    """Bytes of the files that hold rows."""
    names = ("*.jsonl", "*.gz", "facts.json")
    return sum(file.stat().st_size for name in names for file in folder.glob(name))


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Nobody else writes to the folder meanwhile, and what a process that was killed left is in its place."""
    held, _ = files.lock(folder)
    try:
        together.settle(folder)
        yield
    finally:
        files.unlock(held)
