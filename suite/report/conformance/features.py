"""Implementations × features: what works, what is declined, and what was declared about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from suite.records import DTYPES, EVERY_CASE, Outcome
from suite.report.conformance.tally import COUNTS, Count, by_implementation, count
from suite.report.text import Row, code, escaped, section, table

CORE = "core"
"""The column of the cases that need no feature."""

Matrix = dict[tuple[str, str, str], dict[str, Count]]
"""(contract, implementation, device) → feature → count."""

CSV_HEADER = ("contract", "implementation", "device", "feature", *COUNTS)


@dataclass(frozen=True)
class ContractFacts:
    """What a table of features needs to know of a contract: its features in words, and what each case needs."""

    features: Mapping[str, str] = field(default_factory=dict)
    cases: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """The features that some case needs, in the contract's order. The dtypes have a table of their own."""
        needed = frozenset[str]().union(*self.cases.values()) - set(DTYPES)
        return [CORE, *(name for name in self.features if name in needed), *sorted(needed - set(self.features))]

    def needs(self, outcome: Outcome, column: str) -> bool:
        """Whether an outcome counts in a column. What is said of every case counts in all, a forgotten case in none."""
        if outcome.case == EVERY_CASE:
            return True
        if outcome.case not in self.cases:
            return False
        needed = self.cases[outcome.case] - set(DTYPES)
        return column in needed if needed else column == CORE


def feature_matrix(outcomes: Sequence[Outcome], contracts: Mapping[str, ContractFacts]) -> Matrix:
    """Count the outcomes of each implementation for each feature of its contract."""
    matrix: Matrix = {}
    for (name, device), members in by_implementation(outcomes).items():
        for contract in {outcome.contract for outcome in members} & set(contracts):
            facts = contracts[contract]
            asked = [outcome for outcome in members if outcome.contract == contract]
            matrix[contract, name, device] = {
                column: count(outcome for outcome in asked if facts.needs(outcome, column)) for column in facts.columns
            }
    return dict(sorted(matrix.items()))


def feature_lines(matrix: Matrix, contracts: Mapping[str, ContractFacts]) -> list[str]:
    """A table per contract, and its features in words."""
    lines: list[str] = []
    for contract in sorted({contract for contract, _, _ in matrix}):
        facts = contracts[contract]
        rows = [
            [code(name), escaped(device), *(_marked(counts[column]) for column in facts.columns)]
            for (of, name, device), counts in matrix.items()
            if of == contract
        ]
        header = ("implementation", "device", *map(escaped, facts.columns))
        words = [f"{escaped(name)}: {escaped(facts.features.get(name, name))}" for name in facts.columns[1:]]
        lines += section(contract, table(header, rows) + (["; ".join(words) + ".", ""] if words else []), "###")
    legend = f"Passed/asked. A case counts for each feature that it needs, and as {CORE} when it needs none."
    return section("Features", [legend, "", *lines]) if lines else []


def gap_lines(gaps: Mapping[str, Mapping[str, object]], outcomes: Sequence[Outcome]) -> list[str]:
    """What the implementations that were asked declare they lack."""
    rows = [
        (code(name), escaped(feature), escaped(reason))
        for name in _shown(gaps, outcomes)
        for feature, reason in sorted(gaps[name].items())
    ]
    return section("Declared gaps", table(("implementation", "lacks", "because"), rows))


def convention_lines(conventions: Mapping[str, Mapping[str, object]], outcomes: Sequence[Outcome]) -> list[str]:
    """Where the implementations that were asked declare another convention than the contract's."""
    rows = [
        (code(name), escaped(point), escaped(_words(value)))
        for name in _shown(conventions, outcomes)
        for point, value in sorted(conventions[name].items())
    ]
    return section("Declared conventions", table(("implementation", "point", "its convention"), rows))


def feature_rows(matrix: Matrix) -> list[Row]:
    """A row per count, for the CSV."""
    return [[*key, feature, *counts.numbers] for key, row in matrix.items() for feature, counts in row.items()]


def _marked(counts: Count) -> str:
    return f"**{counts}**" if counts.passed < counts.asked else str(counts)


def _shown(declared: Mapping[str, object], outcomes: Sequence[Outcome]) -> list[str]:
    return sorted({outcome.implementation for outcome in outcomes} & set(declared))


def _words(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_words(entry)}" for key, entry in sorted(value.items()))
    return str(value)
