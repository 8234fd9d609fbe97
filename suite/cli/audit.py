"""`attnsuite audit`: audit contracts, the timer, the spread between runs, and exploits."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
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
from attnsuite.model.audit import percent
from attnsuite.model.files import file_errors
from attnsuite.model.statistics import LEVEL
from attnsuite.results import machines, named, open_run, read_machine
from attnsuite.results.ratios import FEWEST_RUNS, Spread, spreads, width

if TYPE_CHECKING:
    from attnsuite.benchmark.stopwatch.audit import Plan

ALLOWED = {"between_runs": ("pause",), "benchmark": (), "cheats": (), "contract": ("jobs", "seeds", "arrays")}
"""The options of each kind of audit, apart from --results. By default contracts are audited."""
MOST_RUNS = 64
"""Runs that `--between-runs` makes at most."""


def run(options: Audit) -> int:
    """Carry out one of the audits. UsageError for options that do not go together."""
    _refuse_mixed(options)
    single_threaded()
    if options.between_runs:
        return audit_between_runs(options.results, options.between_runs, options.pause or 0.0)
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
        if entry.name in ("seeds", "arrays", "between_runs") and value < 0:
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


def audit_between_runs(results: Path, runs: int, pause: float = 0.0, plan: Plan | None = None) -> int:
    """Time the same code in `runs` runs, `pause` seconds apart, store each, and print the spread between them."""
    if runs > MOST_RUNS:
        raise UsageError(f"--between-runs expects an integer from 1 to {MOST_RUNS}, got {runs}")
    from attnsuite.benchmark.stopwatch.audit import Plan, time_once

    with open_run(results, machine.new_run({}, machine.suite_hash(), "audit --between-runs")) as writer:
        for number in range(runs):
            time.sleep(pause if number else 0.0)
            print_hint(f"run {number + 1} of {runs}")
            started = datetime.now(UTC).isoformat(timespec="seconds")
            for row in time_once(started, plan or Plan(), print_hint):
                writer.write(row)
        writer.finish()
    rows = read_machine(results, writer.run.machine.name).repeats
    print(*spread_lines(spreads(rows), len({row.run for row in rows})), writer.folder, sep="\n")
    return 0


def spread_lines(measured: Sequence[Spread], runs: int) -> list[str]:
    """The range within which two runs of the same code lie, for each workload; or how many more runs this takes."""
    if not measured:
        return [f"{runs} runs are stored; {FEWEST_RUNS} are needed for the spread between runs"]
    return [
        f"{spread.workload}, threads {spread.threads}: {spread.runs} runs; two of the same code lie within "
        f"{_within(spread.of_ratios, spread)} next to the baseline and {_within(spread.of_times, spread)} alone "
        f"({percent(LEVEL)})"
        for spread in measured
    ]


def _within(deviation: float, spread: Spread) -> str:
    return f"±{percent(width(2**0.5 * deviation, spread.runs, 1 - LEVEL), 1)}"


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
