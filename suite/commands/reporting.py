"""`attnsuite report`: results/ → tables, from files alone and without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from suite.records import FAILURES, Example, Outcome, UsageError
from suite.report import ContractFacts, write_conformance, write_index
from suite.results import Recorded, read_outcomes


def report(results: Path) -> None:
    """Write the tables of every machine in `results`, and the index. UsageError where there are none."""
    machines = read_outcomes(results)
    if not machines:
        raise UsageError(f"{results} holds no results; `attnsuite run` makes them")
    for name, recorded in machines.items():
        for path in _write(results / name, recorded):
            print(path)
    print(write_index(results, machines))


def _write(folder: Path, recorded: Recorded) -> list[Path]:
    facts = recorded.run.notes.get("facts", {})
    contracts = {
        name: ContractFacts(of["features"], {case: frozenset(needs) for case, needs in of["cases"].items()})
        for name, of in facts.get("contracts", {}).items()
    }
    return write_conformance(
        folder,
        recorded.outcomes,
        recorded.run,
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
