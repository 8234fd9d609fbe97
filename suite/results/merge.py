"""Merging: copy runs of several machines and shards into one folder, and report missing shards."""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from attnsuite.model import Run, Shard, UsageError
from attnsuite.results.format import KINDS, RUN, altered, read_rows, read_run
from attnsuite.results.recorded import machines, request_of, runs_of
from attnsuite.results.writer import place

LISTED = 12
"""The most shards that are named in a line; further ones are counted."""
LONGEST_REQUEST = 100
"""Characters of a request in a line about it."""


@dataclass(frozen=True)
class MergeResult:
    """The result of merging: new runs, each with its machine's folder and its number of rows; and notes."""

    runs: Sequence[tuple[Run, int]]
    notes: Sequence[str]

    @property
    def machines(self) -> list[str]:
        """The names of the folders of their machines."""
        return list(dict.fromkeys(run.machine.name for run, _ in self.runs))


def merge(folders: Sequence[Path], into: Path, partial: bool = False) -> MergeResult:
    """Copy all finished runs in these folders, at any depth, into one folder of results.

    Runs are immutable and are not combined: the newest row of a test counts. Merging again changes nothing.

    Raises UsageError for folders without results, for a damaged run and for missing shards; nothing is copied then.
    With `partial`, missing shards become notes.
    """
    runs = {folder: read_run(folder) for folder in dict.fromkeys(folder for top in folders for folder in _below(top))}
    finished = {folder: run for folder, run in runs.items() if run.finished}
    stored = [run for name in machines(into) for run in runs_of(into, name).values() if run.finished]
    unfinished = [f"{folder}: {request(run)} is not finished" for folder, run in runs.items() if not run.finished]
    missing = [*unfinished, *missing_shards([*finished.values(), *stored])]
    if missing and not partial:
        raise UsageError(f"{'; '.join(missing)}. Nothing was merged; --partial merges the others")
    rows = {folder: sum(len(read_rows(folder, kind)) for kind in KINDS) for folder in finished}  # damage raises here
    if damaged := [refusal for folder, run in finished.items() for refusal in altered(folder, run)]:
        raise UsageError(str(damaged[0]))
    copied, notes = [], list(missing)
    for folder, run in finished.items():
        machine, note = place(into, run.machine)
        notes += [note] if note else []
        if target := _copy(folder, into / machine.name):
            copied.append((read_run(target), rows[folder]))
    return MergeResult(copied, list(dict.fromkeys(notes)))


def missing_shards(runs: Sequence[Run]) -> Iterator[str]:
    """A line for each request with missing shards."""
    requests: dict[object, list[Run]] = {}
    for run in runs:
        if run.divided:
            requests.setdefault(request_of(run)[:4], []).append(run)
    for members in requests.values():
        present = {shard for run in members for shard in run.covers}
        total = members[0].divided
        missing = [name for index in range(1, total + 1) if (name := str(Shard(index, total))) not in present]
        if missing:
            more = f" and {len(missing) - LISTED} more" if len(missing) > LISTED else ""
            names = f"{', '.join(missing[:LISTED])}{more}"
            yield f"{request(members[0])}: {len(missing)} of {total} shards are missing: {names}"


def request(run: Run) -> str:
    """The request of a run, shortened to fit in a line."""
    return run.request if len(run.request) <= LONGEST_REQUEST else f"{run.request[: LONGEST_REQUEST - 1]}…"


def _below(top: Path) -> list[Path]:
    """The folders of runs in a folder, at any depth. Raises UsageError for a folder without runs or without access."""
    if not top.is_dir():
        raise UsageError(
            f"no folder {str(top)!r}; `attnsuite report` merges folders in which check or bench stored results"
        )
    folders, seen = list[Path](), {top.resolve()}
    for place_, names, files in os.walk(top, onerror=_refuse, followlinks=True):
        folder = Path(place_)
        below = {name: (folder / name).resolve() for name in sorted(names) if not name.startswith(".")}
        names[:] = [name for name, real in below.items() if real not in seen]
        seen |= {*below.values()}
        folders += [folder] if RUN in files else []
    if not folders:
        raise UsageError(f"{top} and the folders in it hold no results to merge")
    return folders


def _refuse(error: OSError) -> None:
    raise UsageError(f"{error.filename} cannot be read: {error.strerror or error}")


def _copy(folder: Path, machine: Path) -> Path | None:
    """Copy a run into the folder of its machine, run.json last. Return its folder, or None if it is already there.

    A number is appended to a name that another run has.
    """
    for number in count(1):
        target = machine / (folder.name if number == 1 else f"{folder.name}-{number}")
        if not (target / RUN).exists():
            break
        if (target / RUN).read_bytes() == (folder / RUN).read_bytes():
            return None
    try:
        shutil.copytree(folder, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns(RUN))
        shutil.copy(folder / RUN, target / RUN)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror or error}") from None
    return target
