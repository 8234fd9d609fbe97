"""`attnsuite history`: as text and JSON; runs of other folders and of commits are added to it."""

import json
from pathlib import Path

import pytest
from builders import RUN, measured, outcome
from msgspec.structs import replace
from stored import record

from attnsuite.model import Run

NASTY = "attention/<b>\x1b[31m"
"""A name that would colour a terminal."""


def run(day: int, **others: object) -> Run:
    date = f"2026-01-{day:02}"
    of_day = {"started": f"{date}T03:00:00+00:00", "finished": "", "commit": f"c{day:02}"}
    return replace(RUN, id=f"r{day:02}", **{**of_day, **others})


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Ten runs: from the sixth on with another torch, from the eighth on slower, one failure from the third on."""
    for day in range(1, 11):
        new = {"versions": {**RUN.versions, "torch": "2.14.0"}, "sources": {"attention/loops": "2"}}
        record(
            tmp_path / "results",
            run(day, **(new if day >= 6 else {})),
            measured("matmul", seconds=0.2),
            measured("loops", seconds=0.1 if day < 8 else 0.13),
            outcome("a", "passed" if day < 3 else "failed"),
            outcome("b"),
            outcome("b", name=NASTY),
        )
    return tmp_path / "results"


def test_the_text_says_in_which_run_what_happened(results, cli):
    result = cli("history", "--results", str(results))

    assert result.status == 0
    lines = [line.strip() for line in result.lines]
    assert lines[0] == f"{results}: 10 runs on 1 machine, 2026-01-01 to 2026-01-10"
    wrong, torch, slower = (
        lines.index(line)
        for line in ("2026-01-03 03:00 c03", "2026-01-06 03:00 c06 torch 2.13.0 → 2.14.0", "2026-01-08 03:00 c08")
    )
    assert lines[wrong + 1] == "attention/loops on cpu: 0 of 2 tests failed → 1 of 2 tests failed"
    assert torch < slower, "in the order of runs"
    assert "attention/loops, vit/b16 float32 cpu 1 thread forward hot: 1.30× slower [" in lines[slower + 1]
    assert lines[slower + 1].endswith("], compared with matmul 2.00× faster → 1.54× faster")
    assert lines[-1] == lines[slower + 1], "series without a step are not listed"


def test_no_name_can_command_a_terminal(results, cli):
    record(results, run(11), outcome("b", "failed", name=NASTY))

    out = cli("history", "--results", str(results)).out

    assert "attention/<b>\\x1b[31m on cpu: 0 of 1 tests failed → 1 of 1 tests fa" in out
    assert "\x1b" not in out


def test_json_has_everything(results, cli):
    actual = json.loads(cli("history", "--format", "json", "--results", str(results)).out)

    assert [run["id"] for run in actual["runs"]] == [f"r{day:02}" for day in range(1, 11)]
    (change,) = [change for series in actual["series"] for change in series["changes"]]
    assert (change["run"], change["verdict"]) == ("r08", "slower")
    assert [event["run"] for event in actual["events"]] == ["r03"]
