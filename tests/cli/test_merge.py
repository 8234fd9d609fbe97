"""`attnsuite merge`: what it prints, the pages that it makes, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from shards import stored, timed
from stored import MACHINE, measurement, outcome

from attnsuite.results.store import read_outcomes

Status = Callable[..., object]
Capture = pytest.CaptureFixture[str]


def test_what_was_merged_is_printed_drawn_and_verified(tmp_path: Path, status_of: Status, capsys: Capture) -> None:
    for index in range(1, 5):
        stored(tmp_path / "shards", index)
        timed(tmp_path / "shards", index)

    assert status_of("merge", "shards") == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        f"results/{MACHINE.name}: check on cpu, 4 of 4 shards: 4 rows, the run r1",
        f"results/{MACHINE.name}: bench quick on cpu, 4 of 4 shards: 8 rows, the run r1-2",
    ]
    assert f"results/{MACHINE.name}/benchmark.md" in lines
    assert status_of("verify", "results") == 0
    assert capsys.readouterr().out.startswith("results: verified: ")
    page = (tmp_path / "results" / MACHINE.name / "benchmark.md").read_text()
    assert "| merged | of 4 of 4 shards |" in page
    assert "slower" in page


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["shards"], "attnsuite: check on cpu in 4 shards: 1 of 4 shards are missing: 4/4. Nothing is merged; "),
        (["shards", "again"], f"answered twice: 2/4 in shards/shard-2-of-4/{MACHINE.name} and in again/"),
        (["nowhere"], "attnsuite: there is no folder nowhere; merge takes folders in which check or bench stored"),
        (["empty"], "attnsuite: empty holds no results, at any depth, that could be merged into results"),
        ([], "attnsuite: Missing argument 'DIR...'"),
    ],
)
def test_what_cannot_be_merged_is_one_line_and_status_2(
    tmp_path: Path, status_of: Status, capsys: Capture, words: list[str], says: str
) -> None:
    (tmp_path / "empty").mkdir()
    for index in range(1, 4):
        stored(tmp_path / "shards", index)
    stored(tmp_path / "again", 2, id="r9")

    assert status_of("merge", *words) == 2

    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1
    assert not (tmp_path / "results").exists()


def test_answers_that_contradict_each_other_name_both_folders(
    tmp_path: Path, status_of: Status, capsys: Capture
) -> None:
    rows = [outcome("plain"), outcome("plain", "wrong"), measurement(seconds=(0.5,)), measurement(seconds=(0.25,))]
    for index, row in enumerate(rows, 1):
        stored(tmp_path / "shards", index, row)

    assert status_of("merge", "shards") == 2

    said = capsys.readouterr().err
    assert all(f"shards/shard-{index}-of-4/{MACHINE.name} (" in said for index in (1, 2))
    assert "leave one of the two out" in said
    assert not read_outcomes(tmp_path / "results")
