"""`attnsuite report`: results/ → tables and charts, from files alone and without torch."""

from __future__ import annotations

import sys
from pathlib import Path

from suite.records import Run, UsageError
from suite.report import write_benchmark, write_charts, write_conformance, write_index
from suite.report.conformance import facts
from suite.report.pytest_benchmark import write_benchmark_json
from suite.store import Recorded, read_outcomes
from suite.uncollected import uncollected


@uncollected()
def report(results: Path, only: str = "") -> None:
    """Write the tables and charts of every machine in `results`, or of one, and the index.

    Raises UsageError where there are no results.
    """
    machines = read_outcomes(results)
    if not machines:
        raise UsageError(f"{results} holds no results; `attnsuite run` makes them")
    for name, recorded in machines.items():
        for path in _write(results / name, recorded) if name == (only or name) else ():
            print(path)
    print(write_index(results, machines))


def _write(folder: Path, recorded: Recorded) -> list[Path]:
    written = []
    if recorded.checked_run or not recorded.measured_run:
        written += _conformance(folder, recorded, recorded.checked_run or recorded.run)
    charts = write_charts(folder, recorded)
    if charts.note:
        print(f"{folder}: {charts.note}", file=sys.stderr)
    written += [*write_benchmark(folder, recorded, charts), *charts.paths]
    exported = write_benchmark_json(folder, recorded)
    return [*written, *([exported] if exported else [])]


def _conformance(folder: Path, recorded: Recorded, run: Run) -> list[Path]:
    return write_conformance(
        folder,
        recorded.outcomes,
        run,
        contracts=facts.contracts(recorded),
        gaps=facts.declared("gaps", recorded),
        conventions=facts.declared("conventions", recorded),
        findings=facts.findings(recorded),
        examples=facts.examples(recorded),
        again=facts.again(recorded),
        earlier=recorded.earlier,
        runs=recorded.checked_runs,
    )
