"""What a check writes, stores and leaves out: `--results`, `--fail-fast`, `--quiet`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import attnsuite

Exit = Callable[..., object]
Write = Callable[[str, str], Path]
CASES = ("--case", "plain", "--dtype", "float32")

WRONG_BELOW_TWO_HEADS = """
    import torch

    def attention(query, key, value):
        scores = query @ key.mT / (query.shape[-1] ** 0.5 if query.shape[-3] > 1 else 1)
        return scores.softmax(-1) @ value
    """
"""Wrong as the suite knows it to be done, so that what is wrong is found at once: not every mistake is tried."""
RIGHT = WRONG_BELOW_TWO_HEADS.replace(" if query.shape[-3] > 1 else 1", "")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNSUITE_CACHE", str(tmp_path / "cache"))


def asked(file: Path) -> list[tuple[str, str]]:
    rows = map(json.loads, file.read_text().splitlines())
    return [(row["case"], row["status"]) for row in rows]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_nothing_is_asked_after_the_first_failure(jobs: str, write: Write, status_of: Exit, tmp_path: Path) -> None:
    write("mine.py", WRONG_BELOW_TWO_HEADS)
    write("other.py", WRONG_BELOW_TWO_HEADS)

    status = status_of("check", "mine.py", "other.py", *CASES, "-x", "--jobs", jobs, "--json", "rows.json")

    statuses = [of for _, of in asked(tmp_path / "rows.json")]
    assert status == 1
    assert statuses.count("failed") == 1
    assert statuses[-1] == "failed"


@pytest.mark.slow
def test_quiet_prints_what_fails_and_nothing_else(
    write: Write, status_of: Exit, capsys: pytest.CaptureFixture[str]
) -> None:
    write("mine.py", WRONG_BELOW_TWO_HEADS)
    write("other.py", RIGHT)

    passing = status_of("check", "other.py", *CASES, "--quiet", "--results", "out")
    assert (passing, capsys.readouterr()) == (0, ("", ""))
    failing = status_of("check", "other.py", "mine.py", *CASES, "-q")

    said = capsys.readouterr()
    assert failing == 1
    assert said.out.startswith("attention/mine  ")
    assert "other" not in said.out
    assert said.err == ""


@pytest.mark.slow
def test_outcomes_are_stored_without_timing_and_earlier_cases_stay(
    write: Write, status_of: Exit, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write("mine.py", RIGHT)

    assert status_of("check", "mine.py", *CASES, "--results", "out") == 0
    printed = capsys.readouterr().out
    assert status_of("check", "mine.py", "--case", "scale/half", "--dtype", "float32", "--results", "out") == 1

    stored = attnsuite.load_results(tmp_path / "out")
    assert set(stored["case"]) > {"plain/small", "scale/half"}
    assert len(attnsuite.load_results(tmp_path / "out", "benchmark")) == 0
    (machine,) = {run.parent.parent for run in (tmp_path / "out").glob("*/*/run.json")}
    assert str(Path("out") / machine.name / "cases.html") in printed
    assert not (machine / "benchmark.csv").exists()
    assert f"[cases.html]({machine.name}/cases.html)" in (tmp_path / "out" / "README.md").read_text()


def test_a_readme_of_somebody_else_is_not_written_over(write: Write, status_of: Exit, tmp_path: Path) -> None:
    write("mine.py", RIGHT)
    readme = write("README.md", "# My project\n")

    assert status_of("check", "mine.py", *CASES, "--results", ".") == 2

    assert readme.read_text() == "# My project\n"
    assert {path.name for path in tmp_path.iterdir()} == {"mine.py", "README.md"}
