"""Lines of a terminal: aligned columns, indented lists, no control characters."""

from builders import NASTY

from attnsuite.report.page import Column, Page, Points, Table, blocks, code, note, section, table, text
from attnsuite.report.terminal import render

RIGHT = (Column("name"), Column("time", right=True), Column("memory", right=True))


def lines(*parts):
    return render(Page("not shown", blocks(*parts)))


def test_names_are_aligned_left_and_numbers_right():
    assert lines(table(RIGHT, [("a", "20.0 ms", "4 B"), ("longer", "5.00 ms", "–")])) == [
        "a       20.0 ms  4 B",
        "longer  5.00 ms    –",
    ]


def test_the_last_cell_of_a_short_row_may_be_long():
    of = Table(RIGHT, (*table(RIGHT, [("long", "1 s", "2 B")]).rows, (text("b"), text("refused: it fails gqa/rows"))))

    assert lines(of) == ["long  1 s  2 B", "b     refused: it fails gqa/rows"]
    assert lines(Table(RIGHT, of.rows[1:])) == ["b  refused: it fails gqa/rows"]


def test_the_list_of_a_row_is_below_it():
    of = table(("name", "outcome"), [("a", "1/2 passed"), ("bcd", "2/2 passed")])
    below = {0: Points((note("1 × failed"), Points((note(code("attnsuite check a")),))))}

    assert lines(Table(of.columns, of.rows, below)) == [
        "a    1/2 passed",
        "  1 × failed",
        "      attnsuite check a",
        "bcd  2/2 passed",
    ]


def test_a_section_is_a_heading_and_what_is_in_it():
    assert lines(section("Heading", note("words")), note("after")) == ["Heading", "  words", "after"]


def test_no_line_has_control_characters():
    said = lines(*(section(words, note(words), table(("a", "b"), [(words, words)])) for words in NASTY))

    assert said
    assert all(character.isprintable() for line in said for character in line)
