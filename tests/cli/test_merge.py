"""`attnsuite merge`: what it prints, the pages that it makes, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from shards import CHECK, OTHER, stored, timed
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


def test_a_page_says_which_shards_it_lacks(tmp_path: Path, status_of: Status, capsys: Capture) -> None:
    for index in (1, 3):
        stored(tmp_path / "shards", index)

    assert status_of("merge", "shards", "--partial", "--results", "out") == 0

    assert capsys.readouterr().err == "check on cpu in 4 shards: 2 of 4 shards are missing: 2/4, 4/4\n"
    page = (tmp_path / "out" / MACHINE.name / "conformance.md").read_text()
    assert "| merged | of 2 of 4 shards; not answered on this machine: 2/4, 4/4 |" in page
    assert status_of("verify", "out") == 0


def test_a_page_for_each_machine(tmp_path: Path, status_of: Status) -> None:
    for index in range(1, 5):
        stored(tmp_path / "shards", index, machine=MACHINE if index < 3 else OTHER)

    assert status_of("merge", "shards") == 0

    assert all((tmp_path / "results" / of.name / "conformance.md").exists() for of in (MACHINE, OTHER))


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


def test_a_long_request_is_said_in_short(tmp_path: Path, status_of: Status, capsys: Capture) -> None:
    long = replace(CHECK, asked=f"check on cpu; {'plain ' * 40}")
    for index in range(1, 4):
        stored(tmp_path / "shards", index, of=long)

    assert status_of("merge", "shards") == 2

    assert f"attnsuite: check on cpu; {'plain ' * 14}p… in 4 shards: 1 of 4 shards" in capsys.readouterr().err


def test_what_is_no_folder_of_results_is_not_written_to(tmp_path: Path, status_of: Status, capsys: Capture) -> None:
    for index in range(1, 5):
        stored(tmp_path / "shards", index)
    (tmp_path / "README.md").write_text("my own page\n")

    assert status_of("merge", "shards", "--results", ".") == 2

    assert (tmp_path / "README.md").read_text() == "my own page\n"
    assert "README.md" in capsys.readouterr().err


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
