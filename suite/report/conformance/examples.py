"""The documents' examples: what is printed, what is computed, and which implementations reproduce it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from attnsuite.model import FAILURES, GIVEN, Example, Status
from attnsuite.report.cells import NOTHING, Cell, Span, code, said, text
from attnsuite.report.page import Block, Column, Note, Table, beside_page, first, note, table

MOST_ROWS = 20
"""The most examples that somebody fails on the shorter page."""
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


def reproduced(examples: Sequence[Example]) -> Iterator[Block]:
    """How many examples all that were asked reproduce, and a row for each of the others."""
    failed = [of for of in examples if any(status in FAILURES for status in of.statuses.values())]
    asked = sum(any(status in (Status.PASSED, *FAILURES) for status in of.statuses.values()) for of in examples)
    if examples:
        yield note(
            f"Of {len(examples)} quantities in them {asked} were asked, and {asked - len(failed)} are reproduced by "
            "all implementations that were asked: ", beside_page("conformance_examples.csv"), ".",
        )  # fmt: skip
    yield from first(example_table(failed), MOST_ROWS, "conformance_examples.csv")


def given(examples: Sequence[Example]) -> Note:
    """What the documents themselves give of the examples, each counted once; nothing where no run has noted it."""
    kinds = {"/".join(of.id.split("/")[:3]): of.given for of in examples if of.given}  # documents/doc-004/11.2-…
    counts = Counter(kinds.values())
    parts = [f"{counts[kind]} {words}" for kind, words in GIVEN.items() if counts[kind]]
    return note(f"Of {len(kinds)} examples the documents themselves give: {', '.join(parts)}.") if kinds else note()


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
