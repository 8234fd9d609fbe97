"""The hashes that a run notes, held against the sources of the commit that it names."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from attnsuite import registry
from attnsuite.machine import committed, suite_hash
from attnsuite.model import Run
from attnsuite.registry.declaration import Declaration
from attnsuite.report.verification.cheats import Musts
from attnsuite.results.store.ranges import COMMIT

HISTORY = "suite/results/store/history.py"
"""The file that keeps runs, in every version that does."""
VERDICTS = "suite/benchmark/cheats/submitted/verdicts.toml"
"""The file that declares what must become of each of those submissions."""
PLUGS = "attention"
"""The contract of what is plugged into others."""


@dataclass
class Held:
    """What came of the runs: how many sources are those of their commit, which are not, and which could not be held."""

    alike: int = 0
    amiss: list[tuple[Run, str]] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)


def held(runs: Iterable[Run], repositories: Iterable[Path]) -> Held:
    """Hold the hashes of runs against the first repository that has their commit."""
    found, folders = Held(), list(repositories)
    by_commit: dict[str, list[Run]] = {}
    for run in runs:
        by_commit.setdefault(run.commit, []).append(run)
    for commit, of in by_commit.items():
        repository = next((each for each in folders if _is_clean(commit) and committed.holds(each, commit)), None)
        if repository is None:
            found.not_checked.append(f"the sources of {_named(of)}, {_why(commit)}")
            continue
        with committed.sources(repository, commit) as folder:
            for run in of:
                _hold(run, folder, found)
    return found


def keeps_runs(repositories: Iterable[Path]) -> Callable[[Run], bool | None]:
    """Says of a run whether the version that made it keeps runs in history; None where its sources are not known."""
    mine, folders = suite_hash(), list(repositories)

    @cache
    def at(commit: str) -> bool | None:
        repository = next((each for each in folders if _is_clean(commit) and committed.holds(each, commit)), None)
        return None if repository is None else committed.has(repository, commit, HISTORY)

    return lambda run: True if run.suite == mine else at(run.commit)


def musts(repositories: Iterable[Path]) -> Callable[[str], Musts | None]:
    """Says what a commit declares that must become of submissions which try to fool the suite; None where it is not
    known.
    """
    folders = list(repositories)

    def at(commit: str) -> Musts | None:
        repository = next((each for each in folders if _is_clean(commit) and committed.holds(each, commit)), None)
        if repository is None:
            return None
        with committed.sources(repository, commit) as folder:
            try:
                declared = tomllib.loads((folder / VERDICTS).read_text(encoding="utf-8"))
                return {name: (of["class"], of["check"], of["bench"]) for name, of in declared.items()}
            except (OSError, ValueError, KeyError, TypeError):
                return None

    return at


def _is_clean(commit: str) -> bool:
    return bool(COMMIT.fullmatch(commit)) and not commit.endswith("-dirty")


def _named(runs: list[Run]) -> str:
    return f"the run{'s' * (len(runs) > 1)} {' and '.join(run.id for run in runs)}"


def _why(commit: str) -> str:
    if not commit:
        return "which names no commit"
    if commit.endswith("-dirty"):
        return f"for they were not committed ({commit})"
    return f"for no repository here has the commit {commit:.50}"


def _hold(run: Run, folder: Path, found: Held) -> None:
    others = []
    for name, due in {"suite": run.suite, **run.sources}.items():
        there = _hash(folder, name)
        if not there or not due:
            others.append(name)
        elif there == due:
            found.alike += 1
        else:
            found.amiss.append((run, f"the hash of {name:.80} is {due}, and in the commit {run.commit} it is {there}"))
    if others:
        count = f"{len(others)} sources of the run {run.id}" if len(others) > 1 else f"{others[0]} of the run {run.id}"
        found.not_checked.append(f"{count}, for they are no files of its commit" if len(others) > 1 else
                                 f"{count}, for it is no file of its commit")  # fmt: skip


def _hash(folder: Path, name: str) -> str:
    """The hash of a source by the name that a run gives it; empty where the commit has no such file."""
    if name == "suite":
        return suite_hash(folder / "suite") if (folder / "suite").is_dir() else ""
    contract, _, implementation = name.partition("/")
    host, plug = implementation.partition("+")[::2]
    files = list(_files(folder, contract, host, plug))
    if not all(file.is_file() and file.resolve().is_relative_to(folder.resolve()) for file in files):
        return ""
    of_host, *of_plug = (Declaration(contract, host, "", file=str(file)) for file in files)
    return registry.source_hash(Declaration(contract, host, "", file=of_host.file, plug=next(iter(of_plug), None)))


def _files(folder: Path, contract: str, host: str, plug: str) -> Iterator[Path]:
    """The file of an implementation, and that of what is plugged into it."""
    yield folder / "implementations" / contract / f"{host.partition('.')[0]}.py"
    if plug:
        yield folder / "implementations" / PLUGS / f"{plug.partition('.')[0]}.py"
