"""What runs note beside their outcomes: of each thing, what the newest run says that has outcomes of it here.

Notes that are missing or of another form say nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from suite.records import FAILURES, Example, Outcome, Run
from suite.report.conformance.features import ContractFacts
from suite.store import Recorded


def contracts(recorded: Recorded) -> dict[str, ContractFacts]:
    """Each contract that was asked; features and cases that are no more are kept for the rows of older runs."""
    features: dict[str, dict[str, str]] = defaultdict(dict)
    cases: dict[str, dict[str, frozenset[str]]] = defaultdict(dict)
    for run, outcomes in _newest_first(recorded):
        for name, of in _contracts(run, outcomes).items():
            for feature, words in of.features.items():
                features[name].setdefault(feature, words)
            for case, needs in of.cases.items():
                cases[name].setdefault(case, needs)
    return {name: ContractFacts(features[name], of) for name, of in cases.items()}


def declared(what: str, recorded: Recorded) -> dict[str, Mapping[str, object]]:
    """The `gaps` or `conventions` of each implementation; one that a run asks and does not name declares none."""
    found: dict[str, Mapping[str, object]] = {}
    for run, outcomes in _newest_first(recorded):
        if isinstance(noted := _facts(run).get(what), Mapping):
            for name in {outcome.implementation for outcome in outcomes}:
                found.setdefault(name, _mapping(noted.get(name)))
    return found


def findings(recorded: Recorded) -> dict[str, str]:
    """Each finding in words. Measurements have findings too, so that every run is heard."""
    found: dict[str, str] = {}
    for run in recorded.runs.values():
        found |= _texts(_facts(run).get("findings"))
    return found


def again(recorded: Recorded) -> dict[str, list[str]]:
    """The words that ask each implementation again; none where its registered name does."""
    found: dict[str, list[str]] = {}
    for run, outcomes in _newest_first(recorded):
        noted = _mapping(_facts(run).get("again"))
        for name in {outcome.implementation for outcome in outcomes}:
            words = noted.get(name)
            found.setdefault(name, list(map(str, words)) if isinstance(words, list) else [])
    return found


def examples(recorded: Recorded) -> list[Example]:
    """The examples of the contracts that were asked, with what became of them: the worst status over dtypes.

    One that several contracts have as a case stands there once, with the implementations of all.
    """
    found: dict[tuple[str, ...], Example] = {}
    for run, outcomes in _newest_first(recorded):
        cases = {case for of in _contracts(run, outcomes).values() for case in of.cases}
        due = cases - {example.id for example in found.values()}
        for example in _examples(run):
            if example.id in due:
                found.setdefault((example.id, example.quantity, example.printed), example)
    statuses = _statuses(recorded.outcomes)
    return [replace(example, statuses=statuses[example.id]) for example in found.values()]


def _newest_first(recorded: Recorded) -> list[tuple[Run, list[Outcome]]]:
    """The runs that have outcomes here, each with its own."""
    found: dict[str, list[Outcome]] = defaultdict(list)
    for identity, outcome in recorded.rows:
        found[identity].append(outcome)
    return [(run, found[run.id]) for run in reversed(recorded.checked_runs)]


def _contracts(run: Run, outcomes: Iterable[Outcome]) -> dict[str, ContractFacts]:
    """What a run notes of the contracts of its outcomes."""
    noted = _mapping(_facts(run).get("contracts"))
    asked = {name: _mapping(noted.get(name)) for name in {outcome.contract for outcome in outcomes}}
    return {name: ContractFacts(_texts(of.get("features")), _cases(of.get("cases"))) for name, of in asked.items()}


def _cases(noted: object) -> dict[str, frozenset[str]]:
    found = _mapping(noted).items()
    return {case: frozenset(map(str, needs)) for case, needs in found if isinstance(needs, list)}


def _examples(run: Run) -> Iterator[Example]:
    noted = _facts(run).get("examples")
    for row in noted if isinstance(noted, list) else ():
        texts: dict[str, Any] = {name: text for name, text in _texts(row).items() if name in _TEXTS}
        if len(texts) == len(_TEXTS):
            yield Example(**texts)


_TEXTS = [field.name for field in fields(Example) if field.type == "str"]


def _statuses(outcomes: Iterable[Outcome]) -> dict[str, dict[str, str]]:
    """Of each case the worst status of each implementation."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for of in outcomes:
        earlier = found[of.case].get(of.implementation, of.status)
        found[of.case][of.implementation] = max(of.status, earlier, key=lambda status: _BADNESS.get(status, 0))
    return found


_BADNESS = {"declined": 1, "passed": 2} | dict.fromkeys(FAILURES, 3)


def _facts(run: Run) -> Mapping[str, object]:
    return _mapping(run.notes.get("facts"))


def _mapping(noted: object) -> Mapping[str, object]:
    return noted if isinstance(noted, Mapping) else {}


def _texts(noted: object) -> dict[str, str]:
    return {name: text for name, text in _mapping(noted).items() if isinstance(text, str)}
