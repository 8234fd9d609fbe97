"""Implementations × features: what works, what is declined, and what was declared about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from attnsuite.model import DTYPES, EVERY_CASE, ContractFacts, Facts, Outcome
from attnsuite.report.cells import Cell, code, said, strong, text
from attnsuite.report.conformance.tally import COUNTS, Count, by_implementation, count
from attnsuite.report.page import Block, Column, Section, Table, note, section, table

NO_FEATURE = "core"
"""The heading above the cases that need no feature."""
LONGEST_LEGEND = 10_000
"""Characters of the list that explains all features of a contract: nothing of it may be cut off."""

Matrix = dict[tuple[str, str, str], dict[str, Count]]
"""(contract, implementation, device) → feature → count."""


def feature_matrix(outcomes: Sequence[Outcome], contracts: Mapping[str, ContractFacts]) -> Matrix:
    """Count the outcomes of each implementation for each feature of its contract."""
    matrix: Matrix = {}
    known = {name for name, facts in contracts.items() if facts.cases}
    for (name, device), members in by_implementation(outcomes).items():
        for contract in {outcome.contract for outcome in members if outcome.contract in known}:
            facts = contracts[contract]
            asked = [outcome for outcome in members if outcome.contract == contract]
            matrix[contract, name, device] = {
                column: count(outcome for outcome in asked if needs(facts, outcome, column))
                for column in columns(facts)
            }
    return dict(sorted(matrix.items()))


def columns(of: ContractFacts) -> list[str]:
    """The features that some case needs, in the contract's order. The dtypes have a table of their own."""
    needed = set(chain.from_iterable(of.cases.values())) - set(DTYPES)
    return [NO_FEATURE, *(name for name in of.features if name in needed), *sorted(needed - set(of.features))]


def needs(facts: ContractFacts, outcome: Outcome, column: str) -> bool:
    """Whether an outcome counts in a column. One about every case counts in all; one of an unknown case in none."""
    if outcome.case == EVERY_CASE:
        return True
    if outcome.case not in facts.cases:
        return False
    needed = set(facts.cases[outcome.case]) - set(DTYPES)
    return column in needed if needed else column == NO_FEATURE


def feature_section(matrix: Matrix, contracts: Mapping[str, ContractFacts]) -> Section:
    """A table per contract, and its features in words."""
    tables = [
        section(contract, *_of_contract(contract, matrix, contracts[contract]))
        for contract in sorted({contract for contract, _, _ in matrix})
    ]
    legend = note(
        f"Passed/asked. A case counts for each feature that it needs, and as {NO_FEATURE} when it needs none."
    )
    return section("Features", legend if tables else (), tables)


def _of_contract(contract: str, matrix: Matrix, facts: ContractFacts) -> Iterator[Block]:
    shown = columns(facts)
    rows = [
        [code(name), device, *(_marked(counts[column]) for column in shown)]
        for (of, name, device), counts in matrix.items()
        if of == contract and any(each.asked for each in counts.values())
    ]
    yield table(("implementation", "device", *shown), rows)
    words = [f"{name}: {facts.features.get(name, name)}" for name in shown[1:]]
    if words:
        yield note("; ".join(words) + ".", longest=LONGEST_LEGEND)


def feature_counts(matrix: Matrix) -> Table:
    """A row per count, for programs."""
    heads = (Column(key=key) for key in ("contract", "implementation", "device", "feature", *COUNTS))
    rows = [(*key, feature, *counts.numbers) for key, row in matrix.items() for feature, counts in row.items()]
    return table(heads, rows)


def gaps(declared: Mapping[str, Facts]) -> Table:
    """What implementations declare they lack. `declared` are the facts of the run that each was last checked in."""
    rows = [
        (code(name), feature, reason)
        for name, of in sorted(declared.items())
        for feature, reason in sorted(of.gaps.get(name, {}).items())
    ]
    return table(("implementation", "lacks", "because"), rows)


def conventions(declared: Mapping[str, Facts]) -> Table:
    """Where implementations declare another convention than the contract's."""
    rows = [
        (code(name), point, text(_words(value)))
        for name, of in sorted(declared.items())
        for point, value in sorted(of.conventions.get(name, {}).items())
    ]
    return table(("implementation", "point", "its convention"), rows)


def declarations(declared: Mapping[str, Facts]) -> Table:
    """Gaps and conventions, and what stood around strangers and ran in them, a row each, for programs."""
    rows = [(name, *declaration) for name, of in sorted(declared.items()) for declaration in _declarations(name, of)]
    return table([Column(key=key) for key in ("implementation", "kind", "point", "words")], rows)


def _declarations(name: str, of: Facts) -> Iterator[tuple[str, str, str]]:
    yield from (("lacks", feature, reason) for feature, reason in sorted(of.gaps.get(name, {}).items()))
    yield from (("convention", point, _words(words)) for point, words in sorted(of.conventions.get(name, {}).items()))
    if name in of.walls:
        yield "walls", "", of.walls[name]
    if name in of.operators:
        yield "operators", "", of.operators[name].whole


def _marked(counts: Count) -> Cell:
    return said(strong(counts) if counts.passed < counts.asked else str(counts), value=counts.passed)


def _words(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_words(entry)}" for key, entry in sorted(value.items()))
    return str(value)
