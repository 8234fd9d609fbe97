"""`attnsuite verify`: results compared with themselves: rows as they were written, and pages as the rows give them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from attnsuite.cli.exit_status import FAILED
from attnsuite.cli.requests import Verify
from attnsuite.model import RESULTS, Refusal, UsageError, escaped
from attnsuite.model.garbage_collection import gc_paused
from attnsuite.report import outdated_pages, pages
from attnsuite.results import Recorded, machines, read_machine, verify

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
        recorded = self.machines.values()
        counts = {
            "machine": len(recorded),
            "run": sum(len(each.runs) for each in recorded),
            "outcome": sum(len(each.rows) for each in recorded),
            "measurement": sum(len(each.measured) for each in recorded),
            "training": sum(len(each.trained) for each in recorded),
            "claim": sum(len(each.examined) for each in recorded),
        }
        words = ", ".join(f"{count:,} {name}{'s' * (count != 1)}" for name, count in counts.items() if count)
        return f"{words}; {self.files} page{'s' * (self.files != 1)}, tables and charts are what their rows give"


@gc_paused()
def run(options: Verify) -> int:
    """Verify folders of results, and print errors or what was verified.

    Returns 1 if anything is refused. Raises UsageError for a path that is no folder of results.
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
    """The errors of a folder of results: its rows, and where these have none, its pages."""
    if not path.is_dir():
        raise UsageError(f"there is no folder {path}; `attnsuite verify` takes folders of results")
    names = machines(path)
    if not names:
        raise UsageError(f"{path} holds no results; `attnsuite run` makes them")
    found = Findings()
    for name in names:
        found.errors += verify(path / name)
    if not found.errors:
        found.machines = {name: read_machine(path, name) for name in names}
        found.errors = [Refusal(str(file), "", why) for file, why in outdated_pages(path, found.machines)]
        found.files = sum((path / name).exists() for name in pages(path, found.machines))
    return found
