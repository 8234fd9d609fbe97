"""Markdown of a small page: the form of each block, and texts of submissions unchanged."""

import pytest
from builders import NASTY
from markdown_it import MarkdownIt

from attnsuite.report.markdown import render
from attnsuite.report.page import Page, Points, Section, Table, blocks, code, note, plain, section, table, text


def parsed(markdown):
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(markdown)


def cells(markdown):
    """The texts of the table cells as a browser shows them, row by row."""
    texts = []
    for token in parsed(markdown)[3:]:  # the heading of the page
        if token.type == "tr_open":
            texts.append([])
        elif token.type == "inline":
            kinds = {child.type for child in token.children}
            assert kinds <= {"text", "text_special", "code_inline"}, token.children
            texts[-1].append("".join(child.content for child in token.children))
    return texts


def shown(*parts):
    return render(Page("t", blocks(*parts))).removeprefix("# t\n\n")


def test_each_block_has_its_form():
    page = Page(
        "A page",
        blocks(
            note("Some words about ", code("x"), ", so."),
            Points((note("one"), Points((note("within"),)), note("two"))),
            section("Part", table(("a", "b"), [("x", 1)]), section("Within", note("deep"))),
        ),
    )

    assert render(page).splitlines() == [
        "# A page", "",
        "Some words about `x`, so.", "",
        "- one", "  - within", "- two", "",
        "## Part", "",
        "| a | b |", "|---|---|", "| x | 1 |", "",
        "### Within", "", "deep",
    ]  # fmt: skip


def test_an_empty_section_has_no_heading():
    assert shown(section("Empty", table(("a",), [])), note("x")) == "x\n"


def test_short_rows_are_filled():
    of = table(("a", "b"), [("x", "y")])
    short = Table(of.columns, (*of.rows, (text("z"),)))

    assert shown(short).splitlines() == ["| a | b |", "|---|---|", "| x | y |", "| z |  |"]


def test_lists_of_rows_come_below_the_table():
    of = table(("a",), [("x",)])

    assert shown(Table(of.columns, of.rows, {0: Points((note("why"),))})).splitlines()[-1] == "- why"


@pytest.mark.parametrize("words", NASTY)
def test_texts_and_names_of_a_submission_are_shown_unchanged(words):
    _, row = cells(render(Page("t", (table(("a", "b", "c"), [("before", words, code(words))]),))))

    assert row == ["before", plain(words), plain(words)]


@pytest.mark.parametrize("words", NASTY)
def test_hostile_words_are_no_markup_wherever_they_stand(words):
    said = section(words, note(words, "."), Points((note(words),)))
    page = Page(words, blocks(said, Section(words, (note("x"),))))

    tokens = parsed(render(page))

    kinds = {child.type for token in tokens for child in token.children or ()} | {token.type for token in tokens}
    assert not kinds & {"html_inline", "em_open", "s_open", "link_open", "ordered_list_open", "table_open"}
    assert "html_block" not in kinds
    assert sum(token.type == "heading_open" for token in tokens) == 3
    assert sum(token.type == "list_item_open" for token in tokens) == 1
