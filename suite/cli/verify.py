"""`attnsuite verify`: check that stored rows are as they were written, and that pages match the rows."""

from dataclasses import dataclass, field
from pathlib import Path

from attnsuite.cli.ending import FAILED
from attnsuite.cli.requests import Verify
from attnsuite.model import RESULTS, Refusal, UsageError, escaped
from attnsuite.model.garbage_collection import gc_paused
from attnsuite.report import outdated_pages, pages
from attnsuite.results import MachineRecord, machines, read_machine, verify

NOT_PROVEN = "not verified: that the machine was honest, and that it was the one named"
"""What files cannot prove about themselves."""


@dataclass
class Findings:
    """The errors in a folder, and the records of each machine without errors."""

    errors: list[Refusal] = field(default_factory=list)
    machines: dict[str, MachineRecord] = field(default_factory=dict)
    files: int = 0

    def counted(self) -> str:
        """The numbers of verified things, in words."""
        records = self.machines.values()
        runs, rows = sum(len(record.runs) for record in records), sum(map(_rows, records))
        pages = f"; {self.files} pages and tables match their rows" if self.files else ""
        return f"machines: {len(records):,}, runs: {runs:,}, rows: {rows:,}{pages}"


def _rows(record: MachineRecord) -> int:
    return sum(map(len, (record.rows, record.measured, record.trained, record.examined)))


@gc_paused()
def run(options: Verify) -> int:
    """Verify folders of results, and print errors or what was verified.

    Returns 1 if anything is refused. Raises UsageError for a path that is no folder of results.
    """
    refused = 0
    for path in options.paths or (RESULTS,):
        findings = verified(path)
        refused += len(findings.errors)
        for error in findings.errors:
            print(escaped(str(error)), flush=True)
        if findings.errors:
            files = len({error.path for error in findings.errors})
            count = len(findings.errors)
            print(f"{path}: {count} error{'s' * (count > 1)} in {files} file{'s' * (files > 1)}", flush=True)
        else:
            print(escaped(f"{path}: verified: {findings.counted()}; {NOT_PROVEN}"), flush=True)
    return FAILED if refused else 0


def verified(path: Path) -> Findings:
    """The errors of a folder of results: its rows, and where these have none, its pages."""
    if not path.is_dir():
        raise UsageError(f"no folder {str(path)!r}; `attnsuite verify` expects folders of results")
    names = machines(path)
    if not names:
        raise UsageError(f"{path} holds no results; `attnsuite run` makes them")
    findings = Findings()
    for name in names:
        findings.errors += verify(path / name)
    if not findings.errors:
        findings.machines = {name: read_machine(path, name) for name in names}
        findings.errors = [Refusal(str(file), "", why) for file, why in outdated_pages(path, findings.machines)]
        findings.files = sum((path / name).exists() for name in pages(path, findings.machines))
    return findings
