"""What runs note beside their rows. If several runs note the same, the newest that has rows of it counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from msgspec.structs import replace

from attnsuite.model import FAILURES, ContractFacts, Example, Facts, Measurement, Outcome, Run, Status
from attnsuite.results.store import Recorded


def contracts(recorded: Recorded) -> dict[str, ContractFacts]:
    """Each contract that has rows. Features and cases that no longer exist are kept, because older rows need them."""
    found: dict[str, ContractFacts] = {}
    for run, rows in _newest_first(recorded):
        for name in {row.contract for row in rows}:
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


def findings(recorded: Recorded) -> dict[str, str]:
    """Each finding in words, from all runs, because measurements refer to findings too."""
    found: dict[str, str] = {}
    for run in recorded.runs.values():
        found |= run.facts.findings
    return found


def examples(recorded: Recorded) -> list[Example]:
    """The examples among the cases of the contracts that were checked, with each implementation's worst status.

    An example that is a case of several contracts is listed once, with the implementations of all of them.
    """
    found: dict[tuple[str, ...], Example] = {}
    for run, rows in _newest_first(recorded):
        asked = {row.contract for row in rows if isinstance(row, Outcome)}
        cases = {case for name in asked & set(run.facts.contracts) for case in run.facts.contracts[name].cases}
        due = cases - {example.id for example in found.values()}
        for example in run.facts.examples:
            if example.id in due:
                found.setdefault((example.id, example.quantity, example.printed), example)
    statuses = _statuses(recorded.outcomes)
    return [replace(example, statuses=statuses[example.id]) for example in found.values()]


def _newest_first(recorded: Recorded) -> list[tuple[Run, list[Outcome | Measurement]]]:
    """The runs that have rows here, each with its own."""
    found: dict[str, list[Outcome | Measurement]] = defaultdict(list)
    rows: tuple[tuple[str, Outcome | Measurement], ...] = (*recorded.rows, *recorded.measured)
    for identity, row in rows:
        found[identity].append(row)
    return [(run, found[run.id]) for run in reversed(recorded.runs_of(found))]


def _statuses(outcomes: Iterable[Outcome]) -> dict[str, dict[str, Status]]:
    """The worst status of each implementation, over dtypes and devices, by case."""
    found: dict[str, dict[str, Status]] = defaultdict(dict)
    for of in outcomes:
        earlier = found[of.case].get(of.implementation, of.status)
        found[of.case][of.implementation] = max(of.status, earlier, key=lambda status: _BADNESS.get(status, 0))
    return found


_BADNESS = {Status.DECLINED: 1, Status.PASSED: 2} | dict.fromkeys(FAILURES, 3)
"""Which of two statuses counts for a case: a failure before a pass, a pass before what was not asked."""
