"""cases.html: every test result of one machine, searchable, in the machine's folder."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from attnsuite.model import STATUSES, Outcome
from attnsuite.report import facts
from attnsuite.report.report_page import GROUPS, group_of, render
from attnsuite.results import MachineRecord

CASES = "cases.html"
"""The page's file, in the folder of a machine."""
LETTERS = {status: status[0] for status in STATUSES}
"""The letter of each status in the page's data."""


def cases_text(recorded: MachineRecord) -> str:
    """The text of cases.html."""
    cases, details = dict[str, int](), dict[str, int]()
    blocks = [*_blocks(recorded.outcomes, cases, details)]
    lists = list(dict.fromkeys(tuple(block["c"]) for block in blocks))
    places = {case_list: place for place, case_list in enumerate(lists)}
    contract_facts = facts.contracts(recorded)
    names = [name.split("\n") for name in cases]
    data = {
        "machine": recorded.machine,
        "statuses": {letter: str(status) for status, letter in LETTERS.items()},
        "blocks": [block | {"c": places[tuple(block["c"])]} for block in blocks],
        "lists": lists,
        "cases": [case for _, case in names],
        "why": [contract_facts[contract].why.get(case, "") for contract, case in names],
        "groups": [list(GROUPS).index(group_of(case)) for _, case in names],
        "names": list(GROUPS),
        "details": list(details),
    }
    number = f"{len(recorded.outcomes):,}"
    return render("cases.html.jinja", "cases.js", data, machine=recorded.machine, number=number)


def _blocks(outcomes: Iterable[Outcome], cases: dict[str, int], details: dict[str, int]) -> Iterable[dict[str, Any]]:
    """Per implementation, device and dtype: cases, letters of statuses, and by place messages and known bugs.

    Adds to `cases` and `details` the texts that blocks refer to, each with its place.
    """
    alike: dict[tuple[str, str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        alike[outcome.implementation, outcome.device, outcome.dtype].append(outcome)
    for (name, device, dtype), members in sorted(alike.items()):
        failed = {place: outcome for place, outcome in enumerate(members) if outcome.detail}
        yield {
            "i": name,
            "device": device,
            "dtype": dtype,
            "c": [cases.setdefault(f"{o.contract}\n{o.case}", len(cases)) for o in members],
            "s": "".join(LETTERS[outcome.status] for outcome in members),
            "d": {place: details.setdefault(outcome.detail, len(details)) for place, outcome in failed.items()},
            "k": {place: outcome.known for place, outcome in enumerate(members) if outcome.known},
        }
