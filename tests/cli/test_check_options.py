"""`check --results` and `--fail-fast`."""

from collections.abc import Callable
from pathlib import Path

import pytest
from commanded import Write, outcomes_in

import attnsuite

Exit = Callable[..., object]

pytestmark = pytest.mark.usefixtures("own_cache")
CASES = ("--case", "plain", "--dtype", "float32")

WRONG_BELOW_TWO_HEADS = """
    import torch

    def attention(query, key, value):
        scores = query @ key.mT / (query.shape[-1] ** 0.5 if query.shape[-3] > 1 else 1)
        return scores.softmax(-1) @ value
    """
"""A known mistake, so that the diagnosis is quick."""
RIGHT = WRONG_BELOW_TWO_HEADS.replace(" if query.shape[-3] > 1 else 1", "")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_no_test_runs_after_the_first_failure(jobs: str, write: Write, status_of: Exit, tmp_path: Path) -> None:
    write("mine.py", WRONG_BELOW_TWO_HEADS)
    write("other.py", WRONG_BELOW_TWO_HEADS)

    status = status_of("check", "mine.py", "other.py", *CASES, "-x", "--jobs", jobs, "--json", "rows.json")

    statuses = [item for _, item in outcomes_in(tmp_path / "rows.json")]
    assert status == 1
    assert statuses.count("failed") == 1
    assert statuses[-1] == "failed"


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
