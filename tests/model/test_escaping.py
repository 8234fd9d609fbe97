"""Texts of others are shown, and do nothing."""

import json
import os
import shutil
import subprocess

import pytest

from attnsuite.cli.outputs import JsonRows
from attnsuite.model import Outcome, Status, UsageError, command_line, escaped
from attnsuite.report import markdown, summary_lines
from attnsuite.report.page import Page, note, plain

WORDS = "red \x1b[31m, right to left \u202e, half a character \udc80, bell \x07, C1 \x9b"
SHOWN = r"red \x1b[31m, right to left \u202e, half a character \udc80, bell \x07, C1 \x9b"


def test_what_a_terminal_obeys_is_escaped() -> None:
    assert escaped(WORDS) == SHOWN
    assert escaped(SHOWN) == SHOWN, "and stays as it is"


@pytest.mark.parametrize("text", ["", "π × 2 − é 漢字", "two\nlines\tand a tab", "no\u00a0break"])
def test_what_can_be_read_stays(text: str) -> None:
    assert escaped(text) == text


def test_every_way_out_shows_it_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome("attention/x", "attention", "plain/small", "float32", "cpu", Status.ERROR, WORDS)
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


WORD = "it's a k\udcffe\\.py\n\u202e\U000e0001π"


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
def test_a_command_line_can_be_pasted_whatever_bytes_a_file_has_in_its_name() -> None:
    line = command_line(["printf", "%s", WORD])

    assert line.isprintable()
    done = subprocess.run(["bash", "-c", line], stdout=subprocess.PIPE, env={"LC_ALL": "C.UTF-8"}, check=True)
    assert done.stdout == os.fsencode(WORD)


def test_a_command_line_of_what_can_be_read_is_quoted_as_usual() -> None:
    assert command_line(["check", "my file.py", "π.py"]) == "check 'my file.py' 'π.py'"
