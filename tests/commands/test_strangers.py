"""A file that is not the suite's, checked on the command line: behind walls, and shown harmlessly."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

SUBMISSIONS = Path(__file__).parents[1] / "submissions"
StatusOf = Callable[..., object]


def test_the_report_says_which_walls_stood(status_of: StatusOf, capsys: pytest.CaptureFixture[str]) -> None:
    status = status_of("check", f"{SUBMISSIONS / 'honest.py'}", "--case", "plain/small", "--dtype", "float32")
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("walls: ")]
    assert status in (0, 1)
    assert "what it starts ends with it" in line


def test_what_ships_here_has_no_walls_and_no_line(status_of: StatusOf, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("check", "attention/matmul", "--case", "plain/small", "--dtype", "float32", "--isolate") == 0
    assert "walls" not in capsys.readouterr().out


def test_hostile_words_are_shown_harmlessly(
    status_of: StatusOf, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = tmp_path / "rows.json"
    target = str(SUBMISSIONS / "hostile_words.py")
    status = status_of("check", target, "--case", "plain/small", "--dtype", "float32", "--json", str(rows))
    printed = capsys.readouterr().out
    assert status == 1
    assert all(each.isprintable() or each == "\n" for each in printed)
    shown = r"ValueError: red \x1b[31m, right to left \u202e, and half a character \udc80"
    assert shown in printed
    assert json.loads(rows.read_text(encoding="utf-8").splitlines()[0])["detail"] == shown


def test_changed_inputs_are_found_whatever_the_worker_says(
    status_of: StatusOf, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(SUBMISSIONS / "hostile_mutation.py")
    assert status_of("check", target, "--case", "plain/small", "--dtype", "float32") == 1
    assert "changed" in capsys.readouterr().out


def test_leaving_at_import_is_one_clear_line(status_of: StatusOf, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("check", f"{SUBMISSIONS / 'hostile_import.py'}:attention", "--case", "plain/small") == 1
    assert "died: exit status 0" in capsys.readouterr().out
