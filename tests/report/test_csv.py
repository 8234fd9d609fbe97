"""CSV of a table: the columns for programs, one line per row, and no formula."""

import csv
import io

import pytest
from builders import NASTY

from attnsuite.report.columns import csv_of
from attnsuite.report.page import Column, code, number, table, text


def rows(of):
    return list(csv.reader(io.StringIO(csv_of(of))))


def test_programs_read_values_instead_of_words():
    columns = (Column("time", "seconds"), Column("only for readers"), Column(key="length"), Column("name", "name"))
    of = table(columns, [(number(0.05, "50.0 ms"), "x", 16, code("a")), (number(None), "y", None, text("b" * 900, 60))])

    assert rows(of) == [["seconds", "length", "name"], ["0.05", "16", "a"], ["", "", "b" * 900]]


def test_a_table_without_rows_has_its_header():
    assert csv_of(table((Column(key="a"), Column(key="b")), [])) == "a,b\n"


@pytest.mark.parametrize("words", [*NASTY, "+1", "@x", "-x"])
def test_a_text_is_one_cell_of_one_line_and_no_formula(words):
    found = rows(table((Column(key="a"), Column(key="b")), [(words, "after")]))

    assert len(found) == 2
    assert found[1][1] == "after"
    assert not found[1][0].startswith(("=", "+", "-", "@"))


def test_a_negative_number_is_no_formula():
    assert csv_of(table((Column(key="a"),), [(-1.5,)])) == "a\n-1.5\n"
