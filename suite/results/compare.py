"""`attnsuite compare`: the differences between two sides of results: folders, commits, runs or versions."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from attnsuite.model import Measurement, Outcome, Run, Status, UsageError
from attnsuite.model.comparison import Change, RunComparison
from attnsuite.model.faster import MARGIN
from attnsuite.results.commits import results_of
from attnsuite.results.format import RUN
from attnsuite.results.ratios import memories_of_runs, of_one_run, times_of_runs
from attnsuite.results.recorded import MachineRecord, read_machine
from attnsuite.results.writer import differences, in_words

VERSION = re.compile(r"([\w.-]+)==(\S+)")
"""A library and its version, as runs store it; `commit==1a2b3c` selects runs of a commit."""
COMMIT = "commit"
FORMS = (
    "a folder of results or of a machine, a folder at a commit (results@HEAD~3), one run (results:20260102T03) or "
    "the runs of one version of a library (results:torch==2.11.0 or torch==2.11.0)"
)
NOT_COMPARED = "times and memory are not compared"
Row = TypeVar("Row", Outcome, Measurement)


@dataclass(frozen=True)
class Side:
    """One side: the word that names it, and the records of its machines."""

    word: str
    machines: Mapping[str, MachineRecord]


def side(word: str, results: Path = Path("results")) -> Side:
    """Read the results that a word names; `results` is the folder of a word that names runs alone.

    Raises UsageError if there are no results, if no run matches, and for files that cannot be read.
    """
    place, selection = _parted(word, results)
    wanted = _wanted(selection)
    with results_of(place) as folder:
        folders = list(_machines(folder, word))
        records = {folder.name: read_machine(folder.parent, folder.name, wanted) for folder in folders}
        with_runs = {name: recorded for name, recorded in records.items() if recorded.runs}
        if not with_runs:
            runs = [identity for folder in folders for identity in read_machine(folder.parent, folder.name).runs]
            raise UsageError(
                f"{word}: no run in {place} matches {selection!r:.80}; its runs: {', '.join(runs) or 'none'}"
            )
    return Side(word, with_runs)


def _parted(word: str, results: Path) -> tuple[str, str]:
    """Split a word into its folder, perhaps with a commit, and the selected runs; either may be empty."""
    if Path(word).exists():
        return word, ""
    if VERSION.fullmatch(word):
        return str(results), word
    place, colon, selection = word.rpartition(":")
    return (place or str(results), selection) if colon else (word, "")


def _wanted(selection: str) -> Callable[[Run], bool]:
    """A filter of runs: by the beginning of the id, by the version of a library, or by the commit; by default all."""
    match = VERSION.fullmatch(selection)
    if not match:
        return lambda run: run.id.startswith(selection)
    name, version = match.groups()
    if name == COMMIT:
        return lambda run: bool(run.commit) and (run.commit.startswith(version) or version.startswith(run.commit))
    return lambda run: run.versions.get(name, "").split("+")[0] == version or run.versions.get(name) == version


def _machines(folder: Path, word: str) -> Iterator[Path]:
    """The folders of the machines in a folder of results, or the folder itself if it is a machine's."""
    if folder.is_file():
        raise UsageError(f"{word!r} is a file; add --interleaved to compare files, or name a folder of results")
    if not folder.is_dir():
        raise UsageError(f"no results at {word!r:.120}; expected {FORMS}")
    folder = folder.resolve()
    folders = [path for path in (folder, *sorted(folder.iterdir())) if any(path.glob(f"*/{RUN}"))]
    if not folders:
        raise UsageError(f"{folder} holds no results; `attnsuite run` makes them")
    yield from folders[:1] if folders[0] == folder else folders


def compared(old: Side, new: Side, margin: float = MARGIN) -> list[RunComparison]:
    """Compare each machine that both sides have; if each side has a single machine, compare these two. Raises
    UsageError if the sides have no machine in common.
    """
    names = [name for name in new.machines if name in old.machines]
    if not names and len(old.machines) == len(new.machines) == 1:
        return [_compared((old, next(iter(old.machines))), (new, next(iter(new.machines))), margin)]
    if not names:
        has = (f"{side.word} has {', '.join(side.machines)}" for side in (old, new))
        raise UsageError(f"the sides have no machine in common: {', '.join(has)}; name a machine's folder on each side")
    comparisons = [_compared((old, name), (new, name), margin) for name in names]
    alone = [note for side, other in ((old, new), (new, old)) for note in _alone(side, other)]
    return [*comparisons[:-1], replace(comparisons[-1], notes=(*comparisons[-1].notes, *alone))]


def _alone(side: Side, other: Side) -> Iterator[str]:
    """A line with the machines that only one side has."""
    if names := [name for name in side.machines if name not in other.machines]:
        yield f"{side.word} alone has {', '.join(names)}"


def _compared(old: tuple[Side, str], new: tuple[Side, str], margin: float) -> RunComparison:
    before, after = (side.machines[name] for side, name in (old, new))
    notes = [*_differences(before.run, after.run)]
    current, former = after.run.machine, before.run.machine
    alike = not any(differences(current, former))
    if not alike:
        notes.insert(0, f"the machines differ ({in_words(current, former)}): {NOT_COMPARED}")
    elif same := of_one_run(before, after):
        notes.append(f"{same:,} measurements belong to the same run on both sides and are not compared")
    return RunComparison(
        _named(*old),
        _named(*new),
        notes,
        both(before.outcomes, after.outcomes),
        changes(before.outcomes, after.outcomes),
        changes(before.measurements, after.measurements) if alike else (),
        times_of_runs(before, after) if alike else (),
        memories_of_runs(before, after, margin) if alike else (),
    )


def _named(side: Side, machine: str) -> str:
    """A line about a side: its word, its machine, and the time, commit and torch version of the newest run."""
    run = side.machines[machine].run
    commit, torch = run.commit and f"commit {run.commit}", f"torch {run.versions.get('torch', 'unknown')}"
    parts = (machine, run.started[:16].replace("T", " "), commit, torch)
    return f"{side.word}: {', '.join(filter(None, parts))}"


def _differences(old: Run, new: Run) -> Iterator[str]:
    """Lines about other differences: versions of libraries, and the suite's sources."""
    pairs = {
        name: (old.versions.get(name, "absent"), new.versions.get(name, "absent"))
        for name in {**old.versions, **new.versions}
    }
    if changed := [f"{name} {before} → {after}" for name, (before, after) in pairs.items() if before != after]:
        yield "; ".join(changed)
    if old.suite != new.suite:
        yield "the suite's sources differ: cases of the same name may test something else"


def changes(old: Sequence[Row], new: Sequence[Row]) -> list[Change]:
    """The rows whose status differs: first new failures, then other changes, new rows and rows that are gone.

    Known bugs do not count as failures.
    """
    before: dict[tuple[str, ...], Row] = {row.key: row for row in old}
    after: dict[tuple[str, ...], Row] = {row.key: row for row in new}
    differing = [_change(before.get(key), after.get(key)) for key in dict.fromkeys((*after, *before))]
    return sorted(filter(None, differing), key=lambda change: (not change.worse, not change.new, not change.old))


def both(old: Sequence[Row], new: Sequence[Row]) -> int:
    """The number of rows that both sides have."""
    return len({row.key for row in old} & {row.key for row in new})


def _change(old: Row | None, new: Row | None) -> Change | None:
    if old is None or new is None:
        row = new or old
        return Change(row, _status(old), _status(new), new is not None and new.fails) if row else None
    if old.status == new.status and old.fails == new.fails:
        return None
    return Change(new, old.status, new.status, new.fails and not old.fails)


def _status(row: Outcome | Measurement | None) -> Status | None:
    return row.status if row else None
