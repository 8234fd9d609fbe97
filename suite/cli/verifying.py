"""`attnsuite verify`: results held against themselves, file by file: rows, numbers, pages, charts, sources."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import attnsuite
from attnsuite.cli import defined, sources
from attnsuite.model import Refusal, Run, UsageError
from attnsuite.model.uncollected import uncollected
from attnsuite.report import pytest_benchmark
from attnsuite.report import verification as pages
from attnsuite.report.machine import PAGES as OF_ROWS
from attnsuite.report.verification.index import FILES
from attnsuite.report.versions import NAME as VERSIONS
from attnsuite.results.store import Recorded, Verified, between_runs, facts, history, together
from attnsuite.results.store import verify as verify_rows
from attnsuite.results.store.contents import SIGNS
from attnsuite.results.store.runs import RUNS
from attnsuite.results.store.verification import KINDS, few

UNKNOWN = ", so nothing says what is in it; move it away"
"""What is said of what attnsuite does not write."""
UNPROVEN = "not proven: that the machine was honest, nor that it was the one that is named"
"""What no file can prove about itself."""
PAGES = ("conformance", "benchmark", "learning", "claims")
"""The pages of a machine that are made of rows."""
RENDERED = frozenset({".md", ".csv", ".svg", ".json", ".html"})
"""What the names of pages, tables and charts end in."""
OF_A_MACHINE = (*SIGNS, "stopwatch.md", "stopwatch.csv")
"""A folder with any of these files is a machine's."""
KNOWN = frozenset(
    {
        *OF_A_MACHINE,
        *(facts.FACTS, between_runs.FILE, pytest_benchmark.FILE, together.BEGUN, together.COMPLETE),
        *(kind.column_file(column) for kind in KINDS for column in kind.columns),
        *(name for of in OF_ROWS.values() for name in of.files),
    }
)
"""What attnsuite writes into a machine's folder, but for charts, whose names are those of workloads."""
NOT_OURS = frozenset({"README.md", ".gitattributes", ".gitignore", ".gitkeep", ".DS_Store"})
"""What may lie there that attnsuite does not write: words of whoever sent the results, and what systems leave."""
OF_VERSIONS = frozenset({f"{VERSIONS}.md", f"{VERSIONS}.csv"})
"""What a sweep over versions writes beside the folders of its environments, which hold the rows of it."""
BESIDE_MACHINES = frozenset({*FILES, *OF_VERSIONS, *NOT_OURS, history.FOLDER, ".git"})
"""What may lie in a folder of results beside machines' folders. It may be a repository of its own."""


@dataclass
class Report:
    """What was verified, what is amiss, and what could not be checked."""

    refusals: list[Refusal] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)
    machines: dict[str, Recorded] = field(default_factory=dict)
    files: int = 0
    hashes: int = 0

    def counted(self) -> str:
        """What was verified, in numbers."""
        of = self.machines.values()
        counts = {
            "machine": len(self.machines),
            "run": sum(len(each.runs) for each in of),
            "outcome": sum(len(each.rows) for each in of),
            "measurement": sum(len(each.measured) for each in of),
            "training": sum(len(each.trained) for each in of),
            "claim": sum(len(each.examined) for each in of),
        }
        said = [f"{count:,} {name}{'s' * (count != 1)}" for name, count in counts.items() if count]
        rendered = f"{self.files} page{'s' * (self.files != 1)}, tables and charts are what their rows give"
        return "; ".join((", ".join(said), rendered, f"{self.hashes} hashes of sources are those of their commits"))


@uncollected()
def verify(paths: Sequence[Path]) -> int:
    """Verify folders of results, machines' folders or single files, and print what is amiss or what was verified.

    Returns 1 if anything is refused. Raises UsageError for a path that is none of these.
    """
    refused = 0
    for path in paths:
        report = verified(path)
        for refusal in report.refusals:
            print(_shown(str(refusal)), flush=True)
        refused += len(report.refusals)
        if report.refusals:
            files = len({refusal.path for refusal in report.refusals})
            print(f"{path}: refused: {len(report.refusals)} in {files} file{'s' * (files > 1)}")
        else:
            not_checked = [f"not checked: {'; '.join(report.not_checked)}"] if report.not_checked else []
            print(_shown(f"{path}: verified: {'; '.join((report.counted(), *not_checked, UNPROVEN))}"))
    sys.stdout.flush()
    return 1 if refused else 0


def verified(path: Path) -> Report:
    """What came of a folder of results, a machine's folder or a file. Raises UsageError for a path that is none."""
    if not path.exists():
        raise UsageError(f"there is no {path}; `attnsuite verify` takes a folder of results, a machine's, or one file")
    if path.is_file():
        return _file(path)
    if not path.is_dir():
        raise UsageError(f"{path} is neither a folder nor a regular file; `attnsuite verify` takes either")
    if _is_machine(path):
        return _machines([path])
    folders = _machines_in(path)
    if not folders:
        raise UsageError(f"{path} holds no results; `attnsuite run` makes them")
    return _results(path, folders)


def _machines_in(results: Path) -> list[Path]:
    return sorted(folder for folder in results.iterdir() if folder.is_dir() and _is_machine(folder))


def _is_machine(folder: Path) -> bool:
    return any((folder / name).exists() for name in OF_A_MACHINE)


def _file(path: Path) -> Report:
    """One file: what is amiss in it, and in what it is read with."""
    folder = path.absolute().parent if path.parent == Path() else path.parent
    if path.name in FILES and not _is_machine(folder):
        report = verified(folder)
        beside: tuple[str, ...] = ()
    elif _is_machine(folder):
        report, beside = _machines([folder]), (RUNS, "facts.json")
    else:
        raise UsageError(f"{path} lies in no folder of results, and no file can be verified without those beside it")
    if (
        report.refusals and not report.files and path.suffix in RENDERED
    ):  # with rows that are refused, no page was rendered again
        return report
    kind = path.name.partition(".")[0]
    names = {path.name, *beside, *(f"{kind}.jsonl" for _ in range(path.suffix == ".gz"))}
    report.refusals = [each for each in report.refusals if Path(each.path).name in names or Path(each.path) == folder]
    return report


def _results(path: Path, folders: Sequence[Path]) -> Report:
    """A whole folder of results: its machines, the index of them and the audit."""
    report = _machines(folders)
    readable = len(report.machines) == len(folders)
    with_runs = {name: of for name, of in report.machines.items() if of.runs}
    repositories = path, Path(attnsuite.__file__).parent
    report.refusals += pages.of_results(path, with_runs if readable else None, sources.musts(repositories))
    report.refusals += few([*_without_rows(path), *_unknown_beside(path)])
    report.not_checked += _of_their_own(path)
    machines = list(report.machines.values())
    report.refusals += few([*history.refusals(path, machines, sources.keeps_runs(repositories))])
    if with_runs and not (path / history.FOLDER).is_dir():
        report.not_checked.append(f"what runs before these there were, for there is no {path / history.FOLDER}")
    report.files += sum((path / name).exists() for name in FILES)
    if not readable:
        report.not_checked.append(f"{path / 'README.md'}, for not all rows can be read")
    return report


def _without_rows(results: Path) -> Iterator[Refusal]:
    """Folders with pages such as a machine's, which no run gives."""
    for folder in _other_folders(results):
        if page := _page_in(folder):
            yield Refusal(str(page), "", "no run is recorded beside it that gives such a page")


def _other_folders(results: Path) -> list[Path]:
    return sorted(each for each in results.iterdir() if each.is_dir() and not _is_machine(each))


def _page_in(folder: Path) -> Path | None:
    return next((folder / f"{name}.md" for name in PAGES if (folder / f"{name}.md").exists()), None)


def _unknown_beside(results: Path) -> Iterator[Refusal]:
    """What lies beside machines' folders and is nothing that attnsuite writes there, nor a folder of results again."""
    for path in sorted(results.iterdir()):
        said = path.is_dir() and (_is_machine(path) or _page_in(path) or _machines_in(path))
        if path.name not in BESIDE_MACHINES and not said:
            yield Refusal(str(path), "", f"attnsuite writes no such {'folder' if path.is_dir() else 'file'}{UNKNOWN}")


def _of_their_own(results: Path) -> Iterator[str]:
    """Shards and environments of a sweep: folders of results in this one. And what is made of their rows."""
    for folder in _other_folders(results):
        if folder.name not in BESIDE_MACHINES and _machines_in(folder):
            yield f"{folder}, a folder of results of its own: `attnsuite verify {shlex.quote(str(folder))}`"
    yield from (
        f"{results / name}, which no rows here give" for name in sorted(OF_VERSIONS) if (results / name).exists()
    )


def _machines(folders: Iterable[Path]) -> Report:
    report = Report()
    for folder in folders:
        rows = verify_rows(folder.absolute() if folder.name in ("", "..") else folder)
        otherwise = list(few([*defined.unlike_definitions(folder, rows.placed, rows.recorded.runs)]))
        report.refusals += [*rows.refusals, *otherwise, *few([*_unknown(folder)])]
        if not rows.refusals and not otherwise:
            _readable(folder, rows, report)
    return report


def _unknown(folder: Path) -> Iterator[Refusal]:
    """What lies in a machine's folder and is nothing that attnsuite writes. Charts are held against rows."""
    for path in sorted(folder.iterdir()):
        if path.name not in KNOWN | NOT_OURS and path.suffix != ".svg":
            yield Refusal(str(path), "", f"attnsuite writes no such file{UNKNOWN}")


def _readable(folder: Path, rows: Verified, report: Report) -> None:
    """What can be said where every row is as it was written: of pages, and of sources."""
    report.machines[folder.name] = rows.recorded
    report.not_checked += rows.not_checked
    shown = pages.of_machine(folder, rows.recorded)
    report.refusals += shown.refusals
    report.not_checked += shown.not_checked
    report.files += shown.compared
    of = sources.held(rows.recorded.runs.values(), (folder, Path(attnsuite.__file__).parent))
    report.refusals += _unlike_sources(folder, of.amiss)
    report.not_checked += of.not_checked
    report.hashes += of.alike


def _unlike_sources(folder: Path, amiss: Iterable[tuple[Run, str]]) -> Iterator[Refusal]:
    for run, why in amiss:
        yield Refusal(str(folder / RUNS), f"the run {run.id}", why)


def _shown(line: str) -> str:
    """The line with everything escaped that a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in line)
