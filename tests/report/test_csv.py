"""CSV: one line per row, and no formula."""

import csv
import io

import pytest
from builders import NASTY

from attnsuite.report.columns import csv_of


@pytest.mark.parametrize("words", [*NASTY, "+1", "@x", "-x"])
def test_a_text_is_one_cell_of_one_line_and_no_formula(words):
    found = list(csv.reader(io.StringIO(csv_of(("a", "b"), [(words, "after")]))))

    assert len(found) == 2
    assert found[1][1] == "after"
    assert not found[1][0].startswith(("=", "+", "-", "@"))


def test_a_negative_number_is_no_formula_and_a_missing_one_is_empty():
    assert csv_of(("a", "b"), [(-1.5, None)]) == "a,b\n-1.5,\n"
