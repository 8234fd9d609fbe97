"""`attnsuite audit`: the suite against deviations, correct strangers and cheats; its stopwatch against itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from attnsuite import machine
from attnsuite.cli.checking import single_threaded
from attnsuite.contracts import contract as contract_named
from attnsuite.contracts import names as contract_names
from attnsuite.model import UsageError
from attnsuite.model.limits import MOST_JOBS
from attnsuite.report import write_index
from attnsuite.results.store import Results, read_outcomes
from attnsuite.results.store.files import one_line

if TYPE_CHECKING:
    from attnsuite.benchmark.stopwatch.audit import Plan


def audit(results: Path, jobs: int | None, contract: str | None = None, seeds: int = 0, arrays: int = 0) -> int:
    """Audit every contract and write results/audit.md, or audit one alone; return 1 if there is a complaint.

    UsageError if the number of further seeds or arrays is negative.
    """
    if seeds < 0:
        raise UsageError(f"--seeds is the number of other seeds that are asked, 0 or more, not {seeds}")
    if arrays < 0:
        raise UsageError(f"--arrays is the number of other combinations that are asked, 0 or more, not {arrays}")
    if jobs is not None and not 1 <= jobs <= MOST_JOBS:
        raise UsageError(f"--jobs is the number of processes, 1 to {MOST_JOBS}, not {jobs}")
    audited = [contract_named(contract).name] if contract else contract_names()
    with one_line(results, "written"):  # before the minutes that an audit takes
        results.mkdir(parents=True, exist_ok=True)
    single_threaded()
    from attnsuite.conformance.audit import audit as run
    from attnsuite.report.audit import audit_lines, refuse_foreign_audit, write_audit

    if not contract:
        refuse_foreign_audit(results)

    found = []
    for name in audited:
        found.append(run(name, _progress, jobs, seeds, arrays))
        for line in audit_lines(found[-1:]):
            print(line, flush=True)
    finished = machine.new_run({}, machine.suite_hash(), "audit")
    if not contract:
        print(write_audit(results, found, replace(finished, finished=finished.started)))
        _index(results)
    return 0 if all(each.passed for each in found) else 1


def audit_stopwatch(results: Path, jobs: int | None, plan: Plan | None = None) -> int:
    """Audit the stopwatch, write stopwatch.md for this machine, and return 1 if there is a complaint.

    Raises UsageError if a number of jobs is given: nothing may run beside a measurement.
    """
    if jobs is not None:
        raise UsageError("--jobs does not go with --benchmark: what is timed has the machine to itself")
    started = machine.new_run({}, machine.suite_hash(), "audit --benchmark")
    started = replace(started, machine=Results(results).of(started.machine))
    folder = results / started.machine.name
    with one_line(folder, "written"):  # before the minutes that an audit takes
        folder.mkdir(parents=True, exist_ok=True)
    single_threaded()
    from attnsuite.benchmark.stopwatch.audit import Plan, audit
    from attnsuite.report.stopwatch import stopwatch_lines, write_stopwatch

    found = audit(plan or Plan(), _progress)
    for line in stopwatch_lines(found, started.machine):
        print(line)
    finished = replace(started, finished=machine.new_run({}, "").started)
    for path in write_stopwatch(folder, found, finished):
        print(path)
    _index(results)
    return 0 if found.passed else 1


def _index(results: Path) -> None:
    """Let the index link to what was written, where there is one."""
    if machines := read_outcomes(results):
        print(write_index(results, machines))


def audit_cheats(results: Path, jobs: int | None) -> int:
    """Submit everything that tries to fool the suite, write cheats.md, and return 1 if anything gets through.

    Raises UsageError if a number of jobs is given: nothing may run beside a measurement.
    """
    if jobs is not None:
        raise UsageError("--jobs does not go with --cheats: what is timed has the machine to itself")
    folder = results.resolve()  # the submissions run in an empty folder of their own
    started = machine.new_run({}, machine.suite_hash(), "audit --cheats")
    with one_line(folder, "written"):  # before the minutes that an audit takes
        folder.mkdir(parents=True, exist_ok=True)
    single_threaded()
    from attnsuite.benchmark.cheats.audit import audit
    from attnsuite.report.cheats import cheats_lines, write_cheats

    found = audit(_progress)
    for line in cheats_lines(found):
        print(line)
    print(write_cheats(folder, found, replace(started, finished=machine.new_run({}, "").started)))
    return 0 if found.passed else 1


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
