"""cases.html: every test result of one machine, searchable, in the machine's folder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from attnsuite.model import Outcome, Status
from attnsuite.report import facts
from attnsuite.report.report_page import GROUPS, group_of, render
from attnsuite.results import MachineRecord

CASES = "cases.html"
"""The page's file, in the folder of a machine."""
LETTERS = {
    Status.PASSED: "p",
    Status.FAILED: "f",
    Status.ERROR: "e",
    Status.CRASHED: "c",
    Status.TIMEOUT: "t",
    Status.UNSUPPORTED: "u",
    Status.MISSING: "m",
}
"""The letter of each status in the page's data."""


class _Texts:
    """Texts that the data holds once; rows refer to their places."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def place(self, text: str) -> int:
        return self._places.setdefault(text, len(self._places))

    @property
    def all(self) -> list[str]:
        return list(self._places)


def cases_text(recorded: MachineRecord) -> str:
    """The text of cases.html."""
    cases, details = _Texts(), _Texts()
    blocks = [*_blocks(recorded.outcomes, cases, details)]
    lists = list(dict.fromkeys(tuple(block["c"]) for block in blocks))
    places = {case_list: place for place, case_list in enumerate(lists)}
    contract_facts = facts.contracts(recorded)
    names = [name.split("\n") for name in cases.all]
    data = {
        "machine": recorded.machine,
        "statuses": {letter: str(status) for status, letter in LETTERS.items()},
        "blocks": [block | {"c": places[tuple(block["c"])]} for block in blocks],
        "lists": lists,
        "cases": [case for _, case in names],
        "why": [contract_facts[contract].why.get(case, "") for contract, case in names],
        "groups": [list(GROUPS).index(group_of(case)) for _, case in names],
        "names": list(GROUPS),
        "details": details.all,
    }
    number = f"{len(recorded.outcomes):,}"
    return render("cases.html.jinja", "cases.js", data, machine=recorded.machine, number=number)


def _blocks(outcomes: Iterable[Outcome], cases: _Texts, details: _Texts) -> Iterable[dict[str, Any]]:
    """Per implementation, device and dtype: cases, letters of statuses, and by place messages and known bugs."""
    alike: dict[tuple[str, str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        alike[outcome.implementation, outcome.device, outcome.dtype].append(outcome)
    for (name, device, dtype), members in sorted(alike.items()):
        failed = {place: outcome for place, outcome in enumerate(members) if outcome.detail}
        yield {
            "i": name,
            "device": device,
            "dtype": dtype,
            "c": [cases.place(f"{outcome.contract}\n{outcome.case}") for outcome in members],
            "s": "".join(LETTERS[outcome.status] for outcome in members),
            "d": {place: details.place(outcome.detail) for place, outcome in failed.items()},
            "k": {place: outcome.known for place, outcome in enumerate(members) if outcome.known},
        }
