"""`check --github`: annotations at the line that fails, and a job summary that no submission can break."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import outcome
from commanded import Write

from attnsuite.model import Reason
from attnsuite.report import github
from attnsuite.report.markdown import render as as_markdown

Status = Callable[..., object]

MINE = '''
"""Unscaled."""


def helper(scores):
    return scores.softmax(-1)


def attention(query, key, value):
    return helper(query @ key.mT) @ value
'''


@pytest.fixture
def mine(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in a checked-out repository, and the file of the job summary."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    return write("kernels/mine.py", MINE)


CASES = ("--case", "plain/small", "--case", "bad_input/narrow_keys", "--dtype", "float32")
ASKED = ("check", "kernels/mine.py", *CASES, "--github")


@pytest.mark.slow
def test_a_failure_is_annotated_at_the_function_and_is_in_the_summary(
    status_of: Status, mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "summary.md").write_text("# Before\n\n")

    assert status_of(*ASKED) == 1

    first, *lines = capsys.readouterr().out.splitlines()
    token = first.removeprefix("::stop-commands::")
    assert re.fullmatch("[0-9a-f]{32}", token)
    *before, annotation = lines
    assert before[-1] == f"::{token}::"
    assert not any(line.startswith("::") for line in before[:-1])
    assert annotation.startswith(
        "::error file=kernels/mine.py,line=9,title=attention/mine%3A plain/small in float32::failed"
    )
    assert annotation.endswith(f"%0Aattnsuite check {mine} --case plain/small --dtype float32")
    text = (tmp_path / "summary.md").read_text()
    assert text.startswith("# Before\n\n# Attention conformance\n")
    assert "| ❌ | `attention/mine` | cpu | 0/1 | 1 failed | 0 | 0 | 0 | 1 of 1 |" in text
    assert '| 1 | failed: equals "unscaled": the scores are not divided by √d' in text


def test_accepted_bad_input_that_fails_nothing_is_a_line_of_the_summary_and_no_annotation() -> None:
    says = "input validation: 9 keys with 7 values was accepted; the contract requires an error"
    outcomes = [outcome("bad_input/keys", "failed", "attention/mine", detail=says, reason=Reason.LENIENT)]

    text = as_markdown(github.summary(outcomes, {}, {}))
    assert "| ➖ | `attention/mine` | cpu | 0/0 | 0 | 0 | 0 | 0 | 0 of 1 |" in text
    assert f"- {says}" in text
    assert list(github.errors(outcomes, {}, {})) == []


def test_a_summary_that_cannot_be_written_is_one_line(
    status_of: Status, mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "summary.md").mkdir()

    assert status_of(*ASKED) == 2
    assert (
        f"the summary of the job, {tmp_path}/summary.md, cannot be written: Is a directory" in capsys.readouterr().err
    )


def test_words_of_a_submission_begin_no_command_and_end_no_property() -> None:
    detail = "ValueError: 100%\n::set-output name=a::b\r\n::error::x"
    hostile = outcome("a,b=c/d:e", "error", "attention/mine", detail=detail)

    (line,) = github.errors([hostile], {"attention/mine": github.Place("a,b:c.py", 3)}, {})

    assert "\n" not in line
    assert "\r" not in line
    assert line.startswith("::error file=a%2Cb%3Ac.py,line=3,title=attention/mine%3A a%2Cb=c/d%3Ae in float32::error")
    assert "100%25%0A::set-output" in line
