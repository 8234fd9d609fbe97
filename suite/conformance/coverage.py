"""Which quantities of the documents' examples a case compares, and why no case compares the others."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache

from attnsuite.cases import Case
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
    compared: frozenset[str] = frozenset()
    """The quantities that a case compares."""
    not_compared: Mapping[str, str] = field(default_factory=dict)
    """Of an example with cases, the other quantities, and the reason why no case compares them; may be empty."""

    @property
    def is_covered(self) -> bool:
        """Whether cases compare all quantities that have no reason."""
        return bool(self.cases) and all(self.not_compared.values())


def coverage() -> list[Coverage]:
    """Every example, in the order of the file."""
    reasons = {id: (heading, reason) for heading, ids in documents.left_out().items() for id, reason in ids.items()}
    return [
        Coverage(id, cases_by_example().get(id, {}), *reasons.get(id, ("", "")), *_quantities(id))
        for id in documents.examples()
    ]


def _quantities(id: str) -> tuple[frozenset[str], dict[str, str]]:
    """The quantities that cases compare, and the reasons for the others. A case of `h_3` compares a part of `h`."""
    if not (cases := _cases().get(id)):
        return frozenset(), {}
    quantities = {name for _, case in cases if case.source for name in _whole(case.source.quantity)}
    every = documents.examples()[id].quantities
    return frozenset(quantities & every.keys()), {name: _reason(id, name) for name in every if name not in quantities}


def _whole(quantity: str) -> tuple[str, str]:
    return quantity, re.sub(r"_\d+$", "", quantity)


def _reason(id: str, quantity: str) -> str:
    """The reason of left_out.toml for a quantity, or empty."""
    patterns = documents.quantities_left_out()
    return next((reason for pattern, reason in patterns.items() if fnmatchcase(f"{id}/{quantity}", pattern)), "")


@cache
def _cases() -> dict[str, list[tuple[str, Case]]]:
    """The contract and the case of each quantity, by example."""
    cases: dict[str, list[tuple[str, Case]]] = defaultdict(list)
    for name in names():
        for case in contract(name).cases():
            if case.source is not None:
                cases[case.source.example].append((name, case))
    return dict(cases)


def cases_by_example() -> dict[str, dict[str, tuple[str, ...]]]:
    """The names of the cases that test an example, by example and contract."""
    return {
        id: {name: tuple(case.name for of, case in cases if of == name) for name, _ in cases}
        for id, cases in _cases().items()
    }


def given_by_documents() -> str:
    """What the documents themselves give of the examples that are cases, in the words of the pages."""
    examples = documents.examples()
    counts = Counter(examples[example.id].given for example in coverage() if example.is_covered)
    *most, last = (f"{counts[kind]} {words}" for kind, words in QUANTITY_KINDS.items())
    return f"{', '.join(most)} and {last}"


def summary() -> str:
    """How many examples and quantities cases compare, and why not the others: the table of docs/documents.md."""
    every = coverage()
    covered = [example for example in every if example.is_covered]
    compared = sum(len(example.compared) for example in covered)
    quantities = compared + sum(len(example.not_compared) for example in covered)
    headings = Counter(example.heading for example in every if not example.cases)
    rows = [
        f"| {heading} | {count} |" for heading, count in sorted(headings.items(), key=lambda row: (-row[1], row[0]))
    ]
    says = f"{len(covered)} of {len(every)} examples of the documents are cases: {given_by_documents()}."
    says += f" Cases compare {compared} of their {quantities} quantities; each other one has a reason."
    return "\n".join([says, "", "| why an example is no case | examples |", "|---|---|", *rows])


if __name__ == "__main__":
    print(summary())
