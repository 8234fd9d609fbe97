"""Tables → CSV for pandas and spreadsheets; no cell can become a formula."""

from __future__ import annotations

import csv
import io

from attnsuite.report.cells import LONGEST_CODE, Value, plain
from attnsuite.report.page import Table


def render(table: Table) -> str:
    """The columns that have a key, as the text of a CSV file."""
    data, written = table.data, io.StringIO()
    rows = csv.writer(written, lineterminator="\n")
    rows.writerow(column.key for column in data.columns)
    rows.writerows([_harmless(cell.value) for cell in row] for row in data.rows)
    return written.getvalue()


def _harmless(value: Value) -> Value:
    """Numbers unchanged; a text that a spreadsheet would read as a formula gets a leading quote."""
    if not isinstance(value, str):
        return value
    words = plain(value, LONGEST_CODE)
    return f"'{words}" if words.startswith(("=", "+", "-", "@")) else words
