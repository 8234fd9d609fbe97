"""`attnsuite report DIR...` merges: what it prints, the pages that it makes, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from shards import stored, timed
from stored import MACHINE

Status = Callable[..., object]
Capture = pytest.CaptureFixture[str]


def test_what_was_merged_is_printed_drawn_and_verified(tmp_path: Path, status_of: Status, capsys: Capture) -> None:
    for index in range(1, 5):
        stored(tmp_path / "shards", index)
        timed(tmp_path / "shards", index)

    assert status_of("report", "shards") == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"results/{MACHINE.name}: check on cpu, shard 1/4: 1 rows, the run r1"
    assert len([line for line in lines if " rows, the run " in line]) == 8
    assert status_of("verify", "results") == 0
    assert capsys.readouterr().out.startswith("results: verified: ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["shards"], "attnsuite: check on cpu in 4 shards: 1 of 4 shards are missing: 4/4. Nothing is merged; "),
        (["nowhere"], "attnsuite: there is no folder nowhere; report merges folders in which check or bench stored"),
        (["empty"], "attnsuite: empty holds no results, at any depth, that could be merged"),
        (["--partial"], "attnsuite: --partial goes with folders to merge"),
    ],
)
def test_what_cannot_be_merged_is_one_line_and_status_2(
    tmp_path: Path, status_of: Status, capsys: Capture, words: list[str], says: str
) -> None:
    (tmp_path / "empty").mkdir()
    for index in range(1, 4):
        stored(tmp_path / "shards", index)

    assert status_of("report", *words) == 2

    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1
    assert not (tmp_path / "results").exists()
