"""Texts of others are shown, and do nothing."""

from __future__ import annotations

import json

import pytest

from attnsuite.commands.json_rows import JsonRows
from attnsuite.records import Outcome, Status, UsageError, escaped
from attnsuite.report import summary_lines
from attnsuite.report.cells import plain
from attnsuite.report.page import Page, note
from attnsuite.report.render import markdown

WORDS = "red \x1b[31m, right to left \u202e, half a character \udc80, bell \x07, C1 \x9b"
SHOWN = r"red \x1b[31m, right to left \u202e, half a character \udc80, bell \x07, C1 \x9b"


def test_what_a_terminal_obeys_is_escaped() -> None:
    assert escaped(WORDS) == SHOWN
    assert escaped(SHOWN) == SHOWN, "and stays as it is"


@pytest.mark.parametrize("text", ["", "π × 2 − é 漢字", "two\nlines\tand a tab", "no\u00a0break"])
def test_what_can_be_read_stays(text: str) -> None:
    assert escaped(text) == text


def test_every_way_out_shows_it_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome("attention/x", "attention", "plain/small", "float32", "cpu", Status.RAISED, WORDS)
    assert outcome.detail == SHOWN
    assert SHOWN in "\n".join(summary_lines([outcome]))
    assert str(UsageError(WORDS)) == SHOWN
    assert plain(WORDS) == SHOWN
    page = markdown.render(Page(WORDS, (note(WORDS),)))
    assert all(each.isprintable() or each == "\n" for each in page)
    with JsonRows("-") as rows:
        rows.write({"detail": WORDS})
    written = capsys.readouterr().out
    written.encode()  # no lone surrogate
    assert json.loads(written) == {"detail": SHOWN}
