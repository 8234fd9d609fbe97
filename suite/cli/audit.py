"""`attnsuite audit`: audit contracts, the timer, and exploits."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from attnsuite import machine
from attnsuite.cli.ending import FAILED
from attnsuite.cli.report import report
from attnsuite.cli.requests import Audit
from attnsuite.cli.targets import print_hint, single_threaded
from attnsuite.contracts import contract as contract_named
from attnsuite.contracts import names as contract_names
from attnsuite.model import Run, UsageError
from attnsuite.model.files import file_errors
from attnsuite.results import machines, named

if TYPE_CHECKING:
    from attnsuite.benchmark.stopwatch.audit import Plan

ALLOWED = {"benchmark": (), "cheats": (), "contract": ("jobs", "seeds", "arrays")}
"""The options of each kind of audit, apart from --results. By default contracts are audited."""


def run(options: Audit) -> int:
    """Carry out one of the audits. UsageError for options that do not go together."""
    _refuse_mixed(options)
    single_threaded()
    if options.benchmark:
        return audit_stopwatch(options.results)
    return audit_cheats(options.results) if options.cheats else audit(options)


def _refuse_mixed(options: Audit) -> None:
    kind = next((name for name in ALLOWED if getattr(options, name)), "contract")
    allowed = ("results", kind, *ALLOWED[kind])
    for entry in fields(options):
        value, word = getattr(options, entry.name), entry.metadata["word"]
        if entry.name not in allowed and value != entry.default:
            kinds = "an audit of contracts" if kind == "contract" else f"--{kind.replace('_', '-')}"
            raise UsageError(f"{word} does not go with {kinds}")
        if entry.name in ("seeds", "arrays") and value < 0:
            raise UsageError(f"{word} expects 0 or more, got {value}")


def audit(options: Audit) -> int:
    """Audit every contract and write results/audit.md, or audit one alone; return 1 if there is a complaint."""
    audited = [contract_named(options.contract).name] if options.contract else contract_names()
    _make(options.results)
    from attnsuite.conformance.audit import audit as run
    from attnsuite.report.audit import audit_lines, refuse_foreign_audit, write_audit

    if not options.contract:
        refuse_foreign_audit(options.results)
    audits = []
    for name in audited:
        audits.append(run(name, print_hint, options.jobs, options.seeds, options.arrays))
        print(*audit_lines(audits[-1:]), sep="\n", flush=True)
    finished = machine.new_run({}, machine.suite_hash(), "audit")
    if not options.contract:
        print(write_audit(options.results, audits, structs.replace(finished, finished=finished.started)))
        _index(options.results)
    return 0 if all(audit.passed for audit in audits) else FAILED


def audit_stopwatch(results: Path, plan: Plan | None = None) -> int:
    """Audit the timer, write stopwatch.md for this machine, and return 1 if there is a complaint."""
    started = machine.new_run({}, machine.suite_hash(), "audit --benchmark")
    started = structs.replace(started, machine=named(results, started.machine))
    folder = _make(results / started.machine.name)
    from attnsuite.benchmark.stopwatch.audit import Plan, audit
    from attnsuite.report.audit import stopwatch_lines, write_stopwatch

    audited = audit(plan or Plan(), print_hint)
    print(*stopwatch_lines(audited, started.machine), *write_stopwatch(folder, audited, _finished(started)), sep="\n")
    _index(results)
    return 0 if audited.passed else FAILED


def audit_cheats(results: Path) -> int:
    """Run all exploits, write cheats.md, and return 1 if any succeeds."""
    from attnsuite.benchmark.exploits import audit, catalogue
    from attnsuite.report.audit import cheats_lines, write_cheats

    catalogue()  # raises without a checkout
    folder = _make(results.resolve())  # the exploits run in an empty folder of their own
    started = machine.new_run({}, machine.suite_hash(), "audit --cheats")
    audited = audit(print_hint)
    print(*cheats_lines(audited), write_cheats(folder, audited, _finished(started)), sep="\n")
    return 0 if audited.passed else FAILED


def _make(folder: Path) -> Path:
    """Create the folder before the audit, which takes minutes, and return it. UsageError if it cannot be written."""
    with file_errors(folder, "written"):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def _finished(started: Run) -> Run:
    return structs.replace(started, finished=machine.new_run({}, "").started)


def _index(results: Path) -> None:
    """Update the index of the results, if there is one, so that it links to the new file."""
    if machines(results):
        report(results, draws=False)
