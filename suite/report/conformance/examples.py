"""The documents' examples: what is printed, what is computed, and which implementations reproduce it."""

from __future__ import annotations

from collections.abc import Sequence

from suite.records import FAILURES, Example, Status
from suite.report.cells import NOTHING, Cell, Span, code, said, text
from suite.report.page import Column, Table, table

LONGEST_TENSOR = 60
"""Characters of a printed tensor that readers see: its first few entries; the CSV has all."""

COLUMNS = (
    Column(key="id"), Column("document", "document"), Column("section", "section"), Column("quantity", "quantity"),
    Column("printed", "printed"), Column("computed", "computed"), Column("reproduced by"), Column(key="passed"),
    Column(key="asked"), Column(key="failed"), Column("note", "note"),
)  # fmt: skip
"""The columns of the table, for the page and for conformance_examples.csv."""


def example_table(examples: Sequence[Example]) -> Table:
    """A row per example."""
    ordered = sorted(examples, key=lambda example: (example.document, example.section, example.id, example.quantity))
    return table(COLUMNS, map(_row, ordered))


def _row(of: Example) -> Sequence[object]:
    passed = sum(status == Status.PASSED for status in of.statuses.values())
    failed = {name: status for name, status in sorted(of.statuses.items()) if status in FAILURES}
    asked = passed + len(failed)
    quantity, printed, computed = (_tensor(each) for each in (of.quantity, of.printed, of.computed))
    found = (_who(passed, asked, failed), passed, asked, " ".join(failed))
    return (of.id, of.document, of.section, quantity, printed, computed, *found, of.note)


def _tensor(words: str) -> Cell:
    return Cell(text(words or NOTHING, LONGEST_TENSOR).spans, words)


def _who(passed: int, asked: int, failed: dict[str, Status]) -> Cell:
    if not asked:
        return text("not asked")
    but = [span for name, status in failed.items() for span in (Span(", "), code(name), Span(f" ({status})"))]
    return said(f"{passed} of {asked}", *([Span("; not "), *but[1:]] if failed else []))
