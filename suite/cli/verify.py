"""`attnsuite verify`: results compared with themselves: rows as they were written, and pages as the rows give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from attnsuite.cli.interrupting import FAILED
from attnsuite.cli.requests import Verify
from attnsuite.model import RESULTS, Refusal, UsageError, escaped
from attnsuite.model.uncollected import uncollected
from attnsuite.report import verification as pages
from attnsuite.results.store import Recorded, Results
from attnsuite.results.store import verify as verify_rows

NOT_PROVEN = "not proven: that the machine was honest, nor that it was the one that is named"
"""What no file can prove about itself."""


@dataclass
class Findings:
    """The errors in a folder, what could not be checked, and the rows without an error by machine."""

    errors: list[Refusal] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)
    machines: dict[str, Recorded] = field(default_factory=dict)
    files: int = 0

    def counted(self) -> str:
        """What was verified, in numbers."""
        machines = self.machines.values()
        counts = {
            "machine": len(machines),
            "run": sum(len(each.runs) for each in machines),
            "outcome": sum(len(each.rows) for each in machines),
            "measurement": sum(len(each.measured) for each in machines),
            "training": sum(len(each.trained) for each in machines),
            "claim": sum(len(each.examined) for each in machines),
        }
        words = ", ".join(f"{count:,} {name}{'s' * (count != 1)}" for name, count in counts.items() if count)
        return f"{words}; {self.files} page{'s' * (self.files != 1)}, tables and charts are what their rows give"


@uncollected()
def run(options: Verify) -> int:
    """Verify folders of results, machines' folders or single files, and print errors or what was verified.

    Returns 1 if anything is refused. Raises UsageError for a path that is none of these.
    """
    refused = 0
    for path in options.paths or (RESULTS,):
        found = verified(path)
        refused += len(found.errors)
        for error in found.errors:
            print(escaped(str(error)), flush=True)
        if found.errors:
            files = len({error.path for error in found.errors})
            print(f"{path}: refused: {len(found.errors)} in {files} file{'s' * (files > 1)}", flush=True)
        else:
            not_checked = [f"not checked: {'; '.join(found.not_checked)}"] if found.not_checked else []
            print(escaped(f"{path}: verified: {'; '.join((found.counted(), *not_checked, NOT_PROVEN))}"), flush=True)
    return FAILED if refused else 0


def verified(path: Path) -> Findings:
    """The errors of a folder of results, of a machine's folder, or of one file and the files it is read with."""
    if not path.exists():
        raise UsageError(f"there is no {path}; `attnsuite verify` takes a folder of results, a machine's, or one file")
    folder = path.absolute() if path.is_dir() else path.absolute().parent
    if folder.name in Results(folder.parent).machines():
        return _machines([folder])
    names = Results(folder).machines()
    if not names:
        raise UsageError(f"{path} holds no results; `attnsuite run` makes them")
    found = _machines([path / name if path.is_dir() else folder / name for name in names])
    readable = {name: each for name, each in found.machines.items() if each.runs} if not found.errors else None
    found.errors += pages.of_results(folder, readable)
    return found


def _machines(folders: Sequence[Path]) -> Findings:
    found = Findings()
    for folder in folders:
        rows = verify_rows(folder)
        found.errors += rows.refusals
        if rows.refusals:
            continue
        found.machines[folder.name] = rows.recorded
        shown = pages.of_machine(folder, rows.recorded)
        found.errors += shown.refusals
        found.not_checked += [*rows.not_checked, *shown.not_checked]
        found.files += shown.compared
    return found
