"""The index of docs/grading.md: each section of the documents with its cases, figures and claims."""

from __future__ import annotations

import re
from collections import defaultdict

from attnsuite.conformance.coverage import coverage
from attnsuite.contracts.sources import documents
from attnsuite.documents.claims import all_claims
from attnsuite.documents.figures import FIGURES

SECTION = re.compile(r"\d+(?:\.\d)?")
"""A section of the index: 3.4 of 3.4.1, 11.2 of 11.2.2. Two documents have no numbers."""


def _section(document: str, place: str) -> tuple[str, str]:
    match = SECTION.match(place)
    if document in ("doc-001", "doc-002") or match is None:
        return document, ""
    return document, place[:1] if document == "doc-000" else match[0]


def index() -> str:
    """A row for each section: the contracts with the number of cases, figures, and topics of claims."""
    cases: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    figures, claims = defaultdict[tuple[str, str], set[str]](set), defaultdict[tuple[str, str], set[str]](set)
    for example in coverage():
        place = _section(documents.examples()[example.id].document, documents.examples()[example.id].section)
        for contract, names in example.cases.items():
            cases[place][contract] += len(names)
    for name, figure in FIGURES.items():
        document, _, sections = figure.source.partition(", ")
        figures[_section(document, re.sub(r"^sections? ", "", sections))].add(name)
    for claim in all_claims():
        claims[_section(claim.document, claim.section)].add(claim.topic)
    places = sorted({*cases, *figures, *claims} - {place for place in claims if place[0] == "no document"}, key=_order)
    rows = [
        f"| {' '.join(place).strip()} | {_counted(cases[place])} | {_code(figures[place])} | {_code(claims[place])} |"
        for place in places
    ]
    return "\n".join(["| section | cases by contract | figures | topics of claims |", "|---|---|---|---|", *rows])


def _order(place: tuple[str, str]) -> tuple[str, list[int], str]:
    return place[0], [int(number) for number in re.findall(r"\d+", place[1])], place[1]


def _counted(cases: dict[str, int]) -> str:
    return ", ".join(f"`{contract}` {count}" for contract, count in sorted(cases.items())) or "–"


def _code(names: set[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names)) or "–"


if __name__ == "__main__":
    print(index())
