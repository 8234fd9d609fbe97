"""Merging copies runs: shards of one request count together, missing ones are named, and nothing is changed."""

import gzip
from pathlib import Path

import pytest
from msgspec.structs import replace
from shards import CHECK, OTHER, shard, stored
from stored import MACHINE, RUN, folder, measurement, outcome, record, run_folder

from attnsuite.model import UsageError
from attnsuite.results import merge, read, verify

COMMITTED = Path(__file__).parents[2] / "results"


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def shards(tmp_path):
    for index in range(1, 5):
        stored(tmp_path / "shards", index)
    return tmp_path / "shards"


def test_merging_is_copying_and_merging_again_changes_nothing(shards, tmp_path):
    merge([shards], tmp_path / "out")
    before = files(tmp_path / "out")

    assert merge([shards, shards / "shard-1-of-4"], tmp_path / "out").runs == []
    assert files(tmp_path / "out") == before
    assert before[next(path for path in before if path.parts[-2:] == ("r1", "run.json"))] in files(shards).values()


def test_an_unfinished_shard_is_missing_and_not_copied(shards, tmp_path):
    record(tmp_path / "begun", shard(2, of=replace(CHECK, request="other")), outcome("a"), finish=False)

    with pytest.raises(UsageError, match="other is not finished"):
        merge([shards, tmp_path / "begun"], tmp_path / "out")
    assert len(merge([shards, tmp_path / "begun"], tmp_path / "out", partial=True).runs) == 4


def test_two_runs_of_one_name_are_both_there(tmp_path):
    record(tmp_path / "one", RUN, outcome("a"))
    record(tmp_path / "two", replace(RUN, suite="other"), outcome("b"))

    merge([tmp_path / "one", tmp_path / "two"], tmp_path / "out")

    recorded = read(tmp_path / "out")[MACHINE.name]
    assert {identity: row.case for identity, row in recorded.rows} == {"r1": "a", "r1-2": "b"}
    assert recorded.runs["r1-2"].id == "r1-2"
    assert merge([tmp_path / "two"], tmp_path / "out").runs == []


def test_machines_have_a_folder_each_also_where_they_are_called_alike(tmp_path):
    record(tmp_path / "one", RUN, outcome("a"))
    record(tmp_path / "two", replace(RUN, machine=replace(MACHINE, cores=4, threads=4)), outcome("a"))
    record(tmp_path / "three", replace(RUN, machine=OTHER), outcome("a"))

    merged = merge([tmp_path], tmp_path / "out")

    assert sorted(read(tmp_path / "out")) == sorted(merged.machines)
    assert len(set(merged.machines)) == 3
    assert len(merged.notes) == 1


def test_damage_is_refused_before_anything_is_copied(shards, tmp_path):
    (file,) = (shards / "shard-2-of-4").rglob("outcomes.jsonl.gz")
    file.unlink()

    with pytest.raises(UsageError, match=r"outcomes.jsonl.gz: the file is missing"):
        merge([shards], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def results(tmp_path):
    record(tmp_path, RUN, outcome("a"), outcome("b", "failed", detail="off"), measurement())
    return tmp_path


def said(results):
    return [str(refusal) for refusal in verify(folder(results))]


def test_a_run_as_it_was_written_is_verified(results):
    assert said(results) == []


def test_the_committed_runs_are_as_they_were_written():
    machines = [path for path in COMMITTED.iterdir() if path.is_dir()]

    assert machines
    assert [str(refusal) for machine in machines for refusal in verify(machine)] == []


@pytest.mark.parametrize("name", ["outcomes.jsonl.gz", "measurements.jsonl.gz", "facts.json.gz"])
def test_every_byte_counts(results, name):
    file = run_folder(results) / name
    data = file.read_bytes()
    for place in (0, 4, len(data) // 2, len(data) - 1):
        file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        errors = (f"{name}: the file was altered", f"{name}: it cannot be unpacked")
        assert any(error in line for line in said(results) for error in errors)
        assert said(results)


def test_a_missing_file_and_an_unknown_one_are_named(results):
    (run_folder(results) / "outcomes.jsonl.gz").rename(run_folder(results) / "mine.txt")

    first, second = said(results)
    assert first.endswith("mine.txt: run.json names no such file; move it away")
    assert second.endswith("outcomes.jsonl.gz: the file is missing")


def test_a_run_that_is_not_finished_says_what_finishes_it(tmp_path):
    record(tmp_path, replace(RUN, request="check on cpu"), outcome("a"), finish=False)

    (line,) = said(tmp_path)
    assert "not finished" in line
    assert "check on cpu" in line


def test_damaged_lines_are_listed_and_counted(results):
    file = run_folder(results) / "outcomes.jsonl.gz"
    line = gzip.decompress(file.read_bytes()).splitlines()[0]
    file.write_bytes(gzip.compress(b"\n".join([line, *[b"{}"] * 30]) + b"\n"))

    lines = said(results)
    assert "outcomes.jsonl.gz, line 2: Object missing required field" in lines[1]
    assert lines[-1].endswith("10 more lines are damaged")
    assert len(lines) == 1 + 20 + 1


def test_a_damaged_header_is_named(results):
    (run_folder(results) / "run.json").write_text('{"format": 4, "id": 1}\n')

    (line,) = said(results)
    assert "run.json, field id: Expected `str`, got `int`" in line
