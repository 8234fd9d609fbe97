"""Folders of several machines and shards → one folder of results: a run for each request, machine and set of versions.

Everything is read, and refused where it has to be, before anything is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from attnsuite.model import Machine, Run, UsageError
from attnsuite.model.uncollected import uncollected
from attnsuite.results.store import contents, files, history, joining, parts, together
from attnsuite.results.store.contents import AnyRecord, Contents
from attnsuite.results.store.divided import Divided
from attnsuite.results.store.existing import Existing
from attnsuite.results.store.parts import Kinds, Part, grouped
from attnsuite.results.store.place import known, place, unlike
from attnsuite.results.store.recorded import newest
from attnsuite.results.store.runs import RUNS
from attnsuite.results.store.writer import unused


@dataclass(frozen=True)
class Merged:
    """The runs that are new in the folder or hold more now, each with how many rows it has, and what is to be said."""

    runs: Sequence[tuple[Run, int]]
    notes: Sequence[str]

    @property
    def machines(self) -> list[str]:
        """The names of the folders that they are in."""
        return list(dict.fromkeys(run.machine.name for run, _ in self.runs))


@uncollected()
def merged(folders: Sequence[Path], into: Path, partial: bool = False) -> Merged:
    """Bring all runs that machines' folders hold, at any depth below these, into one folder of results.

    Shards of one request become one run for each machine and set of versions; a run that was not divided stays as it
    is. What the folder holds stays, but for answers to the same questions of earlier runs. The order of folders is of
    no account, and merging again changes nothing.

    Raises UsageError for folders without results, for shards that are missing or were answered twice, and where a
    question has two answers in what is to be one run; then nothing is written. With `partial`, missing shards are only
    said.
    """
    given, notes = _given(folders, into, partial)
    contents.check_layout(into)
    kept = parts.read(_machines_in(into), kept=True)
    kinds = Kinds()
    for part in (*kept, *given):
        kinds.of(part.run.machine)
    found, said = _arranged(given, kept, kinds, partial)
    runs: list[tuple[Run, int]] = []
    for _, of in sorted(grouped(found, lambda part: kinds.of(part.run.machine)).items()):
        runs += _put(into, of, notes)
    return Merged(runs, [*said, *dict.fromkeys(notes)])


def _given(folders: Sequence[Path], into: Path, partial: bool) -> tuple[list[Part], list[str]]:
    """The runs in these folders, and what is to be said of folders that hold none."""
    found: dict[Path, Path] = {}
    notes = []
    mine = {folder.resolve() for folder in _machines_in(into)}
    for folder in folders:
        there = {each.resolve(): each for each in parts.machines(folder) if each.resolve() not in mine}
        if not there:
            notes.append(f"{folder} holds no results, at any depth, that could be merged into {into}")
        found = there | found
    if notes and (not found or not partial):
        raise UsageError(notes[0])
    return parts.read(found.values()), notes


def _machines_in(results: Path) -> list[Path]:
    return sorted({file.parent for sign in contents.SIGNS for file in results.glob(f"*/{sign}")})


def _arranged(given: Sequence[Part], kept: Sequence[Part], kinds: Kinds, partial: bool) -> tuple[list[Part], list[str]]:
    """The runs that are to be written, and what is to be said. Raises UsageError for what cannot become one."""
    refused, missing, notes = list[str](), list[str](), list[str]()
    sets: list[Sequence[Part]] = []
    for question, of in grouped((part for part in given if part.run.divided), lambda part: part.question).items():
        finished, begun = _by_end(of)
        divided = Divided(finished, begun, [part for part in kept if part.question == question], kinds)
        of_request = divided.known()
        refused += [divided.twice(of_request, partial)]
        missing += [divided.missing(of_request)]
        notes += divided.unneeded(of_request)
        sets += grouped(of_request, divided.run_of).values()
    finished, begun = _by_end([part for part in given if not part.run.divided])
    missing += [f"{part.folder}: {parts.asked(part.run)} is not finished" for part in begun]
    sets += _whole_runs(finished, kept, kinds)
    _refuse([*filter(None, refused)], [] if partial else [*filter(None, missing)])
    return [each for each in map(joining.joined, sets) if each.records], [*filter(None, missing), *notes]


def _refuse(refused: Sequence[str], missing: Sequence[str]) -> None:
    """Raise UsageError, in one line, for what cannot become one run, and for what is missing."""
    if refused or missing:
        remedy = "; --partial merges the others" if missing and not refused else ""
        raise UsageError(f"{'; '.join((*refused, *missing))}. Nothing is merged{remedy}")


def _by_end(of: Iterable[Part]) -> tuple[list[Part], list[Part]]:
    """Those that are finished, and those that are not."""
    by = grouped(of, lambda part: bool(part.run.finished))
    return by.get(True, []), by.get(False, [])


def _whole_runs(finished: Sequence[Part], kept: Sequence[Part], kinds: Kinds) -> list[Sequence[Part]]:
    """Runs that were not divided, each with its copies and with what is kept of it."""

    def same(part: Part) -> tuple[str, str, int]:
        return part.run.id, part.run.started, kinds.of(part.run.machine)

    there = grouped((part for part in kept if not part.run.divided and part.run.finished), same)
    return [[*there.get(which, ()), *copies] for which, copies in grouped(finished, same).items()]


def _put(into: Path, found: Sequence[Part], notes: list[str]) -> list[tuple[Run, int]]:
    """Write the runs of one kind of machine beside what its folder holds, all at once; note what there is to know."""
    machine = _home(into, found[0].run.machine, notes)
    with _alone(into / machine.name, notes) as folder:
        there = contents.read(folder)
        runs, records = dict(there.runs), dict[str, Sequence[AnyRecord]]()
        for part in found:
            run = replace(part.run, machine=replace(part.run.machine, name=machine.name))
            for old in [old.id for old in runs.values() if _is_in(old, run)]:
                del runs[old]
            run = replace(run, id=unused(run.id, runs))
            runs[run.id], records[run.id] = run, part.records
        others = [row for row in there.recorded if row[0] in runs and row[0] not in records]
        mine = [(identity, record) for identity, of in records.items() for record in of]
        for identity, of in records.items():
            history.keep(into, runs[identity], of)  # first: a crash here leaves runs that are merged again
        together.replace_together(folder, contents.written(_newest(runs, [*others, *mine], records)))
    return [(runs[identity], len(of)) for identity, of in records.items()]


def _is_in(old: Run, new: Run) -> bool:
    """Whether a run is this one, or all its shards are in this one."""
    if old.covers:
        return old.covers.items() <= new.covers.items() and (old.asked, old.versions) == (new.asked, new.versions)
    return not new.covers and (old.id, old.started) == (new.id, new.started)


def _newest(runs: Mapping[str, Run], recorded: Iterable[tuple[str, AnyRecord]], new: Collection[str]) -> Contents:
    """Of each question the newest answer, without older answers to what the `new` runs know not to exist any more."""
    there = Contents(dict(sorted(runs.items(), key=lambda of: (of[1].finished or of[1].started, of[0]))), [], [])
    for identity, record in recorded:
        there.add(identity, record)
    existing = Existing.of(there, new)
    return Contents(
        there.runs,
        [row for row in newest(there.runs, there.outcomes) if existing.has_case(*row)],
        [row for row in newest(there.runs, there.measurements) if existing.has_workload(*row)],
        list(newest(there.runs, there.learned)),
        list(newest(there.runs, there.claimed)),
    )


def _home(into: Path, machine: Machine, notes: list[str]) -> Machine:
    """The machine, called like the folder in which its runs are, or are to be."""
    for folder in sorted(file.parent for file in into.glob(f"*/{RUNS}")):
        if (there := known(folder)) and unlike(machine, there) is None:
            return replace(machine, name=folder.name)
    placed, elsewhere = place(into, machine)
    notes += filter(None, [elsewhere])
    return placed


@contextmanager
def _alone(folder: Path, notes: list[str]) -> Iterator[Path]:
    """The folder, which nobody else writes to."""
    with files.one_line(folder, "written"):
        folder.mkdir(parents=True, exist_ok=True)
    held, unlocked = files.lock(folder)
    notes += filter(None, [unlocked])
    try:
        together.settle(folder)
        yield folder
    finally:
        files.unlock(held)
