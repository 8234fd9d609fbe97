"""`attnsuite report`: results/ → tables and charts, from files alone and without torch."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from suite.records import FAILURES, Example, Outcome, Run, UsageError
from suite.report import ContractFacts, write_benchmark, write_charts, write_conformance, write_index
from suite.report.pytest_benchmark import write_benchmark_json
from suite.results import Recorded, read_outcomes


def report(results: Path) -> None:
    """Write the tables and charts of every machine in `results`, and the index. UsageError where there are none."""
    machines = read_outcomes(results)
    if not machines:
        raise UsageError(f"{results} holds no results; `attnsuite run` makes them")
    for name, recorded in machines.items():
        for path in _write(results / name, recorded):
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
    facts = run.notes.get("facts", {})
    contracts = {
        name: ContractFacts(of["features"], {case: frozenset(needs) for case, needs in of["cases"].items()})
        for name, of in facts.get("contracts", {}).items()
    }
    return write_conformance(
        folder,
        recorded.outcomes,
        run,
        contracts=contracts,
        gaps=facts.get("gaps"),
        conventions=facts.get("conventions"),
        findings=facts.get("findings"),
        examples=[_answered(Example(**row), recorded.outcomes) for row in facts.get("examples", [])],
        earlier=recorded.earlier,
    )


def _answered(example: Example, outcomes: Sequence[Outcome]) -> Example:
    """The example with what each implementation made of it: the worst status over its dtypes."""
    statuses: dict[str, str] = {}
    for outcome in outcomes:
        if outcome.case == example.id:
            statuses[outcome.implementation] = _worse(outcome.status, statuses.get(outcome.implementation, ""))
    return replace(example, statuses=statuses)


def _worse(one: str, other: str) -> str:
    order: Mapping[str, int] = {"": 0, "declined": 1, "passed": 2} | dict.fromkeys(FAILURES, 3)
    return max(one, other, key=lambda status: order.get(status, 0))
