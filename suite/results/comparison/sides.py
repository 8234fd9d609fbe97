"""What a word of `attnsuite compare` names: the machines of a folder of results, now or at a commit, or some runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from attnsuite.model import Run, UsageError
from attnsuite.results.comparison.spread import Spread, spreads
from attnsuite.results.store import Recorded, Results, between_runs
from attnsuite.results.store.at_commit import results_of
from attnsuite.results.store.contents import SIGNS

VERSION = re.compile(r"([\w.-]+)==(\S+)")
"""A library and its version, which runs note."""
COMMIT = "commit"
"""What stands in place of a library for runs that were made at a commit: `commit==1a2b3c`."""
FORMS = (
    "a folder of results or of a machine, as it was at a commit (results@HEAD~3), of one run (results:20260102T03) "
    "or of one version of a library (results:torch==2.11.0, or torch==2.11.0 alone)"
)


@dataclass(frozen=True)
class Side:
    """What a word names: what is recorded of each machine, and how far the runs of each lie apart."""

    word: str
    machines: Mapping[str, Recorded]
    spreads: Mapping[str, Sequence[Spread]] = field(default_factory=dict)


def side(word: str, results: Path = Path("results")) -> Side:
    """Read what a word names; `results` is the folder where it names runs alone.

    Raises UsageError where nothing is there, where no run is meant, and for files that are not as they were written.
    """
    place, meant = _parted(word, results)
    wanted = _wanted(meant)
    with results_of(place) as folder:
        folders = list(_machines(folder, word))
        found = {each.name: Results(each.parent).read(each.name, wanted) for each in folders}
        with_runs = {name: recorded for name, recorded in found.items() if recorded.runs}
        if not with_runs:
            runs = [identity for each in folders for identity in Results(each.parent).read(each.name).runs]
            raise UsageError(f"{word}: no run in {place} is of {meant!r:.80}; its runs are {', '.join(runs) or 'none'}")
        known = {each.name: spreads(between_runs.read(each)) for each in folders if each.name in with_runs}
    return Side(word, with_runs, known)


def _parted(word: str, results: Path) -> tuple[str, str]:
    """The folder, perhaps with a commit, and the runs that are meant; either may be empty."""
    if Path(word).exists():
        return word, ""
    if VERSION.fullmatch(word):
        return str(results), word
    place, colon, meant = word.rpartition(":")
    return (place or str(results), meant) if colon else (word, "")


def _wanted(meant: str) -> Callable[[Run], bool]:
    """Whether a run is meant: by the beginning of its id, by a library's version or its commit; all where none is."""
    told = VERSION.fullmatch(meant)
    if not told:
        return lambda run: run.id.startswith(meant)
    name, version = told.groups()
    if name == COMMIT:
        return lambda run: bool(run.commit) and (run.commit.startswith(version) or version.startswith(run.commit))
    return lambda run: run.versions.get(name, "").split("+")[0] == version or run.versions.get(name) == version


def _machines(folder: Path, word: str) -> Iterator[Path]:
    """The machines' folders in a folder of results, or the folder itself where it is a machine's."""
    if not folder.is_dir():
        raise UsageError(f"{word!r:.120} names no results; due is {FORMS}")
    there = (
        [folder.resolve()] if _is_machine(folder) else sorted(each for each in folder.iterdir() if _is_machine(each))
    )
    if not there:
        raise UsageError(f"{folder} holds no results; `attnsuite run` makes them")
    yield from there


def _is_machine(folder: Path) -> bool:
    return any((folder / name).is_file() for name in SIGNS)
