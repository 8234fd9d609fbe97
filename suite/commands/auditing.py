"""`attnsuite audit`: the suite against its own deviations and correct strangers."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from suite import machine
from suite.commands.checking import single_threaded
from suite.results.files import one_line


def audit(results: Path, jobs: int | None) -> int:
    """Audit every contract, write results/audit.md, and return 1 when anything is amiss."""
    with one_line(results, "written"):  # before the minutes that an audit takes
        results.mkdir(parents=True, exist_ok=True)
    single_threaded()
    from suite.audit import audit as run
    from suite.report.audit import audit_lines, write_audit

    found = run(progress=lambda line: print(line, file=sys.stderr, flush=True), jobs=jobs)
    for line in audit_lines(found):
        print(line)
    finished = machine.new_run({}, machine.suite_hash(), "audit")
    print(write_audit(results, found, replace(finished, finished=finished.started)))
    return 0 if found.passed else 1
