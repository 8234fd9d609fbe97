"""cases.html: every test result of one machine, searchable, in a page of its own beside the machine's runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from attnsuite.model import Outcome, Status
from attnsuite.report import facts
from attnsuite.report.report_page import ASSETS, GROUPS, as_json, group_of, policy, render
from attnsuite.results import Recorded

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


class _Words:
    """Texts that stand once in the data, and elsewhere by their place."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def place(self, words: str) -> int:
        return self._places.setdefault(words, len(self._places))

    @property
    def all(self) -> list[str]:
        return list(self._places)


def cases_text(recorded: Recorded) -> str:
    """The text of cases.html."""
    cases, details = _Words(), _Words()
    blocks = [*_blocks(recorded.outcomes, cases, details)]
    lists = list(dict.fromkeys(tuple(block["c"]) for block in blocks))
    places = {cases_of: place for place, cases_of in enumerate(lists)}
    noted = facts.contracts(recorded)
    named = [name.split("\n") for name in cases.all]
    data = {
        "machine": recorded.machine,
        "statuses": {letter: str(status) for status, letter in LETTERS.items()},
        "blocks": [block | {"c": places[tuple(block["c"])]} for block in blocks],
        "lists": lists,
        "cases": [case for _, case in named],
        "why": [noted[contract].why.get(case, "") for contract, case in named],
        "groups": [list(GROUPS).index(group_of(case)) for _, case in named],
        "names": list(GROUPS),
        "details": details.all,
    }
    script, style = ((ASSETS / name).read_text(encoding="utf-8") for name in ("cases.js", "style.css"))
    return render(
        "cases.html.jinja",
        machine=recorded.machine,
        number=f"{len(recorded.outcomes):,}",
        style=style,
        script=script,
        policy=policy(style, script),
        data=as_json(data),
    )


def _blocks(outcomes: Iterable[Outcome], cases: _Words, details: _Words) -> Iterable[dict[str, Any]]:
    """For each implementation, device and dtype: its cases, a letter for each, and by place what was said of some."""
    alike: dict[tuple[str, str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        alike[outcome.implementation, outcome.device, outcome.dtype].append(outcome)
    for (name, device, dtype), members in sorted(alike.items()):
        failed = {place: of for place, of in enumerate(members) if of.detail}
        yield {
            "i": name,
            "device": device,
            "dtype": dtype,
            "c": [cases.place(f"{of.contract}\n{of.case}") for of in members],
            "s": "".join(LETTERS[of.status] for of in members),
            "d": {place: details.place(of.detail) for place, of in failed.items()},
            "k": {place: of.known for place, of in enumerate(members) if of.known},
        }
