"""Merging copies runs: shards of one request count together, missing ones are named, and nothing is changed."""

import pytest
from msgspec.structs import replace
from shards import CHECK, OTHER, shard, stored
from stored import MACHINE, RUN, outcome, record

from attnsuite.model import UsageError
from attnsuite.results import merge, read


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def shards(tmp_path):
    for index in range(1, 5):
        stored(tmp_path / "shards", index)
    return tmp_path / "shards"


def test_the_rows_of_all_shards_are_there(shards, tmp_path):
    merged = merge([shards], tmp_path / "out")

    assert [(run.id, rows) for run, rows in merged.runs] == [("r1", 1), ("r2", 1), ("r3", 1), ("r4", 1)]
    assert merged.machines == [MACHINE.name]
    (recorded,) = read(tmp_path / "out").values()
    assert [item.case for item in recorded.outcomes] == ["large", "plain", "ragged", "small"]


def test_merging_is_copying_and_merging_again_changes_nothing(shards, tmp_path):
    merge([shards], tmp_path / "out")
    before = files(tmp_path / "out")

    assert merge([shards, shards / "shard-1-of-4"], tmp_path / "out").runs == []
    assert files(tmp_path / "out") == before
    assert before[next(path for path in before if path.parts[-2:] == ("r1", "run.json"))] in files(shards).values()


def test_missing_shards_are_named_and_nothing_is_merged_without_partial(tmp_path):
    for index in (1, 3):
        stored(tmp_path / "shards", index)

    with pytest.raises(UsageError, match="2 of 4 shards are missing: 2/4, 4/4"):
        merge([tmp_path / "shards"], tmp_path / "out")
    assert not (tmp_path / "out").exists()

    merged = merge([tmp_path / "shards"], tmp_path / "out", partial=True)
    assert len(merged.runs) == 2
    assert "2/4, 4/4" in merged.notes[0]


def test_shards_that_arrive_later_complete_those_that_are_there(shards, tmp_path):
    merge([shards / "shard-1-of-4", shards / "shard-2-of-4"], tmp_path / "out", partial=True)

    assert merge([shards / "shard-3-of-4", shards / "shard-4-of-4"], tmp_path / "out").notes == []
    assert len(read(tmp_path / "out")[MACHINE.name].outcomes) == 4


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
