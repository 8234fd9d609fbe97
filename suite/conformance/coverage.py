"""Which cases test each example of the documents, and why no case tests the others."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from attnsuite.contracts import contract, names
from attnsuite.contracts.sources import documents
from attnsuite.model import QUANTITY_KINDS


@dataclass(frozen=True)
class Coverage:
    """One example: the names of the cases that test it, by contract, or the reason why no case does."""

    id: str
    cases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    heading: str = ""
    """The reason in short, as a heading that several examples share."""
    reason: str = ""


def coverage() -> list[Coverage]:
    """Every example, in the order of the file."""
    reasons = {id: (heading, reason) for heading, ids in documents.left_out().items() for id, reason in ids.items()}
    return [Coverage(id, cases_by_example().get(id, {}), *reasons.get(id, ("", ""))) for id in documents.examples()]


@cache
def cases_by_example() -> dict[str, dict[str, tuple[str, ...]]]:
    """The names of the cases that test an example, by example and contract."""
    cases: dict[str, dict[str, tuple[str, ...]]] = defaultdict(dict)
    for name in names():
        for case in contract(name).cases():
            if case.source is not None:
                by_contract = cases[case.source.example]
                by_contract[name] = (*by_contract.get(name, ()), case.name)
    return dict(cases)


def given_by_documents() -> str:
    """What the documents themselves give of the examples that are cases, in the words of the pages."""
    examples = documents.examples()
    counts = Counter(examples[each.id].given for each in coverage() if each.cases)
    *most, last = (f"{counts[kind]} {words}" for kind, words in QUANTITY_KINDS.items())
    return f"{', '.join(most)} and {last}"


def summary() -> str:
    """How many examples are cases, and why the others are not: the table of docs/documents.md."""
    every = coverage()
    cases = sum(bool(each.cases) for each in every)
    others = Counter(each.heading for each in every if not each.cases)
    rows = [f"| {heading} | {count} |" for heading, count in sorted(others.items(), key=lambda row: (-row[1], row[0]))]
    says = f"{cases} of {len(every)} examples of the documents are cases: {given_by_documents()}. The others:"
    return "\n".join([says, "", "| why not | examples |", "|---|---|", *rows])


if __name__ == "__main__":
    print(summary())
