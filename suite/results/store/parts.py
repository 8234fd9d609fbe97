"""The runs in folders of results, at any depth: whole ones, and the parts of requests that were divided."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from attnsuite.model import Machine, Run, UsageError
from attnsuite.results.store import contents
from attnsuite.results.store.contents import AnyRecord
from attnsuite.results.store.place import differences

LONGEST_REQUEST = 100
"""Characters of a request in a line about it."""
Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Part:
    """A run with its records, and the folder in which it was found."""

    folder: Path
    run: Run
    records: Sequence[AnyRecord]
    kept: bool = False
    """Whether it is in the folder that others are merged into."""

    @property
    def question(self) -> tuple[Hashable, ...]:
        """What the parts of one request have in common."""
        run = self.run
        return run.asked, run.divided, run.suite, tuple(sorted(run.sources.items()))

    @property
    def versions(self) -> tuple[tuple[str, str], ...]:
        """The versions of the libraries with which it ran."""
        return tuple(sorted(self.run.versions.items()))

    @property
    def age(self) -> tuple[str, str, tuple[int, ...]]:
        """What puts parts in the same order wherever they are found."""
        return self.run.started, self.run.id, tuple(sorted(int(part.partition("/")[0]) for part in self.run.covers))


@dataclass
class Kinds:
    """The kinds of machines among runs: the times of machines of one kind may stand in one run."""

    known: list[Machine] = field(default_factory=list)

    def of(self, machine: Machine) -> int:
        """The number of the machine's kind."""
        found = next((number for number, other in enumerate(self.known) if alike(machine, other)), None)
        if found is not None:
            return found
        self.known.append(machine)
        return len(self.known) - 1


def asked(run: Run) -> str:
    """What was asked, in words that fit in a line."""
    return run.asked if len(run.asked) <= LONGEST_REQUEST else f"{run.asked[: LONGEST_REQUEST - 1]}…"


def alike(one: Machine, other: Machine) -> bool:
    """Whether two machines are of one kind: equal in all that times depend on, system and driver among it."""
    same = one.system == other.system and dict(one.accelerator_facts) == dict(other.accelerator_facts)
    return same and not any(differences(one, other))


def read(folders: Iterable[Path], kept: bool = False) -> list[Part]:
    """The runs in these machines' folders, in an order that does not depend on that of the folders.

    Raises UsageError for what is not as it was written, or not by this attnsuite.
    """
    return sorted((part for folder in folders for part in _read(folder, kept)), key=lambda part: part.age)


def _read(folder: Path, kept: bool) -> Iterator[Part]:
    there = contents.read(folder)
    records: dict[str, list[AnyRecord]] = defaultdict(list)
    for identity, record in there.recorded:
        records[identity].append(record)
    last = {contents.question_of(run) if run.shard else (run.id,): run for run in there.runs.values()}
    yield from (Part(folder, run, records[run.id], kept) for run in last.values())


def machines(folder: Path) -> list[Path]:
    """The folders of machines in a folder, at any depth, or itself. UsageError where it cannot be read."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}; merge takes folders in which check or bench stored results")
    found, seen = [], {folder.resolve()}
    for place, names, files in os.walk(folder, onerror=_refuse, followlinks=True):
        below = {name: Path(place, name).resolve() for name in sorted(names) if not name.startswith(".")}
        names[:] = [name for name, real in below.items() if real not in seen]
        seen |= {*below.values()}
        if not {*contents.SIGNS}.isdisjoint(files):
            found.append(Path(place))
    return found


def _refuse(error: OSError) -> None:
    raise UsageError(f"{error.filename} cannot be read: {error.strerror or error}")


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> Mapping[Key, list[Item]]:
    """The items by their key, in their order."""
    found: dict[Key, list[Item]] = defaultdict(list)
    for item in items:
        found[key(item)].append(item)
    return found
