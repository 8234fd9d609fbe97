"""What runs note beside their rows. If several runs note the same, the newest that has rows of it counts."""

from __future__ import annotations

from collections import Counter, defaultdict

from attnsuite.model import ContractFacts, Facts, FindingFacts, Measurement, Outcome, Run
from attnsuite.results import Recorded


def contracts(recorded: Recorded) -> dict[str, ContractFacts]:
    """Each contract that has rows. Features and cases that no longer exist are kept, because older rows need them."""
    found: dict[str, ContractFacts] = {}
    for run, rows in _newest_first(recorded):
        for name in sorted({row.contract for row in rows}):
            newer, older = found.get(name, ContractFacts()), run.facts.contracts.get(name, ContractFacts())
            found[name] = ContractFacts(
                {**newer.features, **older.features, **newer.features},
                {**newer.cases, **older.cases, **newer.cases},
                newer.baseline or older.baseline,
                newer.is_model or older.is_model,
                {**newer.why, **older.why, **newer.why},
            )
    return found


def declared(recorded: Recorded) -> dict[str, Facts]:
    """For each implementation the facts of the newest run that checked it: gaps, conventions, how to ask it again."""
    return {outcome.implementation: recorded.runs[run].facts for run, outcome in _oldest_first(recorded)}


def _oldest_first(recorded: Recorded) -> list[tuple[str, Outcome]]:
    order = {run: place for place, run in enumerate(recorded.runs)}
    return sorted(recorded.rows, key=lambda row: order[row[0]])


def sampled(recorded: Recorded) -> dict[str, tuple[int, int]]:
    """The implementations that their newest run tested on a sample, with their tests in that run and in all."""
    newest = {outcome.implementation: run for run, outcome in _oldest_first(recorded)}
    tests = Counter(outcome.implementation for run, outcome in recorded.rows if run == newest[outcome.implementation])
    whole = {name: recorded.runs[run].facts.sampled.get(name, 0) for name, run in newest.items()}
    return {name: (tests[name], number) for name, number in sorted(whole.items()) if number}


def findings(recorded: Recorded) -> dict[str, FindingFacts]:
    """Each known bug, as the newest run notes it."""
    found: dict[str, FindingFacts] = {}
    for run in recorded.runs.values():
        found |= run.facts.findings
    return found


def _newest_first(recorded: Recorded) -> list[tuple[Run, list[Outcome | Measurement]]]:
    """The runs that have rows here, each with its own."""
    found: dict[str, list[Outcome | Measurement]] = defaultdict(list)
    rows: tuple[tuple[str, Outcome | Measurement], ...] = (*recorded.rows, *recorded.measured)
    for identity, row in rows:
        found[identity].append(row)
    return [(run, found[run.id]) for run in reversed(recorded.runs_of(found))]
