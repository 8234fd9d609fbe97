"""The documents' examples: what is printed beside what is computed, and who reproduces it."""

from __future__ import annotations

from collections.abc import Sequence

from suite.records import FAILURES, Example
from suite.report.text import Row, code, escaped, section, table

CSV_HEADER = ("id", "document", "section", "quantity", "printed", "computed", "passed", "asked", "failed", "note")
LONGEST = 60
"""Of a printed tensor the first entries are shown."""


def example_lines(examples: Sequence[Example]) -> list[str]:
    """A row per example, for conformance.md."""
    rows = [
        (
            escaped(example.document),
            escaped(example.section),
            escaped(example.quantity, LONGEST),
            escaped(example.printed or "–", LONGEST),
            escaped(example.computed or "–", LONGEST),
            _who(example),
            escaped(example.note),
        )
        for example in _ordered(examples)
    ]
    header = ("document", "section", "quantity", "printed", "computed", "reproduced by", "note")
    return section("The documents' examples", table(header, rows))


def example_rows(examples: Sequence[Example]) -> list[Row]:
    """A row per example, for the CSV."""
    rows: list[Row] = []
    for example in _ordered(examples):
        said = (example.id, example.document, example.section, example.quantity, example.printed, example.computed)
        passed, failed = _passed(example), _failed(example)
        rows.append([*said, passed, passed + len(failed), " ".join(failed), example.note])
    return rows


def _who(example: Example) -> str:
    passed, failed = _passed(example), _failed(example)
    if not passed and not failed:
        return "not asked"
    but = ", ".join(f"{code(name)} ({status})" for name, status in failed.items())
    return f"{passed} of {passed + len(failed)}" + (f"; not {but}" if failed else "")


def _passed(example: Example) -> int:
    return sum(status == "passed" for status in example.statuses.values())


def _failed(example: Example) -> dict[str, str]:
    return {name: status for name, status in sorted(example.statuses.items()) if status in FAILURES}


def _ordered(examples: Sequence[Example]) -> list[Example]:
    return sorted(examples, key=lambda example: (example.document, example.section, example.id, example.quantity))
