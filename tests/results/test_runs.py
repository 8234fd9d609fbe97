"""Runs on disk: what is written is read, a crash costs one row, the newest row counts, and damage is named."""

import gzip
import json
import math
import os

import pandas
import pytest
from msgspec.structs import replace
from stored import (
    MACHINE,
    MISSING,
    RUN,
    SECOND,
    THIRD,
    folder,
    killed_at_the_end,
    measurement,
    names,
    outcome,
    read,
    record,
    run_folder,
)

from attnsuite.model import (
    ClaimResult,
    ClaimStatus,
    ContractFacts,
    Evidence,
    Facts,
    Measurement,
    Outcome,
    Repetition,
    TrainingRow,
    UsageError,
    WorkloadFacts,
)
from attnsuite.results import finished_shard, load, machines, open_run
from attnsuite.results.format import read_rows

TRAINING = TrainingRow("attention/loops", "recall", 0, "cpu", (2.0, 1.0), {"accuracy": 0.5}, config={"epochs": 2})
CLAIM = ClaimResult(
    "claims/toy", "toy/count", "cpu", "doc-1", "1", "two", "a count", "2", Evidence.EXACT, ClaimStatus.HOLDS, 2.0
)
REPEATED = Repetition("2026-01-02", "vit/b16", 1, 0, 0.25, 1.0)


def test_rows_of_every_kind_are_read_as_they_were_written(tmp_path):
    worst = outcome("a/worst", "failed", error_ratio=math.inf, seconds=0.25, diagnosis=("unscaled",), detail="off")
    record(tmp_path, RUN, worst, measurement(), TRAINING, CLAIM, REPEATED, facts=Facts({"attention": ContractFacts()}))

    recorded = read(tmp_path)

    assert recorded.rows == (("r1", worst),)
    assert recorded.measurements == [measurement()]
    assert recorded.learned == [TRAINING]
    assert recorded.claimed == [CLAIM]
    assert read_rows(tmp_path / MACHINE.name / "r1", "repeats") == [REPEATED]
    assert recorded.run.facts == Facts({"attention": ContractFacts()})
    assert recorded.run.machine == MACHINE


def test_a_finished_run_has_a_compressed_file_of_each_kind_with_its_hash(tmp_path):
    record(tmp_path, RUN, outcome(), measurement())

    assert names(tmp_path) == ["facts.json.gz", "measurements.jsonl.gz", "outcomes.jsonl.gz", "run.json"]
    header = json.loads((run_folder(tmp_path) / "run.json").read_text())
    assert header["format"] == 4
    assert sorted(header["files"]) == ["facts.json.gz", "measurements.jsonl.gz", "outcomes.jsonl.gz"]
    assert all(len(item) == 64 for item in header["files"].values())
    assert sorted(path.name for path in folder(tmp_path).iterdir()) == ["r1"]


def test_pandas_loads_every_file_in_one_line(tmp_path):
    record(tmp_path, RUN, outcome("a", error_ratio=0.5), outcome("b", "failed", error_ratio=math.inf), measurement())

    outcomes = pandas.read_json(run_folder(tmp_path) / "outcomes.jsonl.gz", lines=True)
    measurements = pandas.read_json(run_folder(tmp_path) / "measurements.jsonl.gz", lines=True)

    assert outcomes.error_ratio.tolist() == [0.5, 1e308]
    assert measurements.seconds.tolist() == [[0.25, 0.5]]


def test_the_same_rows_give_the_same_bytes_in_any_order(tmp_path):
    rows = [outcome(f"case/{number}") for number in range(8)]
    record(tmp_path / "one", RUN, *rows)
    record(tmp_path / "two", RUN, *reversed(rows))

    first, two = (run_folder(tmp_path / name) / "outcomes.jsonl.gz" for name in ("one", "two"))
    assert first.read_bytes() == two.read_bytes()


def test_long_texts_are_cut_and_control_characters_escaped(tmp_path):
    record(tmp_path, RUN, outcome("a", "error", detail="x" * 5000), outcome("b", "error", detail="\x1b[31m\udc80"))

    long, hostile = (item.detail for item in read(tmp_path).outcomes)
    assert (len(long), long.endswith("(5000 characters)")) == (2000, True)
    assert hostile == r"\x1b[31m\udc80"


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (outcome(seconds=-1.0), r"`float` >= 0"),
        (measurement(seconds=()), "status is measured"),
        (measurement(processes="01x"), r"\[0-9\]"),
        (measurement(processes="0"), "a digit for each"),
        (measurement(direction="sideways"), "forward"),
        (measurement(threads=-1), ">= 0"),
        (outcome(status="measured"), "status"),
        (measurement(status="passed"), "status"),
        (replace(TRAINING, curve=()), "length >= 1"),
        (replace(REPEATED, seconds=0.0), "> 0"),
    ],
    ids=str,
)
def test_values_out_of_range_are_refused_before_they_are_written(tmp_path, row, why):
    with open_run(tmp_path, RUN) as writer, pytest.raises(ValueError, match=why):
        writer.write(row)

    assert names(tmp_path) == ["facts.json.gz", "run.json"]


def test_the_newest_row_of_a_test_counts(tmp_path):
    record(tmp_path, RUN, outcome("a", "failed"), outcome("b"))
    record(tmp_path, SECOND, outcome("a"))

    assert read(tmp_path).rows == (("r2", outcome("a")), ("r1", outcome("b")))


def test_the_last_row_of_a_test_in_a_run_counts(tmp_path):
    record(tmp_path, RUN, outcome("a", "timeout"), outcome("a"))

    assert read(tmp_path).outcomes == [outcome("a")]


def test_a_row_about_all_workloads_replaces_those_before_it_and_is_replaced_by_those_after_it(tmp_path):
    record(tmp_path, RUN, measurement())
    record(tmp_path, SECOND, MISSING)
    assert read(tmp_path).measurements == [MISSING]

    record(tmp_path, THIRD, measurement("ladder/2k"))
    assert read(tmp_path).measurements == [measurement("ladder/2k")]


def test_rows_of_tests_that_a_whole_run_no_longer_has_do_not_count(tmp_path):
    record(tmp_path, RUN, outcome("gone"), outcome("gone", name="attention/other"), outcome("gone", device="cuda"))
    record(tmp_path, SECOND, outcome("new"), facts=Facts(whole=("attention/loops",)))

    assert {(item.case, item.implementation, item.device) for item in read(tmp_path).outcomes} == {
        ("new", "attention/loops", "cpu"),
        ("gone", "attention/loops", "cuda"),
        ("gone", "attention/other", "cpu"),
    }


def test_rows_of_a_shard_do_not_replace_others_before_all_shards_are_there(tmp_path):
    whole = Facts(whole=("attention/loops",))
    record(tmp_path, RUN, outcome("gone"))
    record(tmp_path, replace(SECOND, shard="1/2"), outcome("a"), facts=whole)
    assert [item.case for item in read(tmp_path).outcomes] == ["a", "gone"]

    record(tmp_path, replace(SECOND, id="r3", shard="2/2"), outcome("b"), facts=whole)
    assert [item.case for item in read(tmp_path).outcomes] == ["a", "b"]


def test_rows_of_workloads_and_claims_that_no_longer_exist_do_not_count(tmp_path):
    workloads = {"attention": {"ladder/2k": WorkloadFacts("ladder", "2k", "", 2048)}}
    record(tmp_path, RUN, measurement("ladder/1k"), measurement("shape/1"), CLAIM)
    record(tmp_path, SECOND, measurement("ladder/2k"), facts=Facts(workloads=workloads, claims=("toy/other",)))

    recorded = read(tmp_path)
    assert [item.workload for item in recorded.measurements] == ["ladder/2k", "shape/1"]
    assert recorded.claimed == []


def test_an_interrupted_run_is_resumed_with_its_rows(tmp_path):
    record(tmp_path, RUN, outcome("a"), measurement(), finish=False)

    with open_run(tmp_path, replace(RUN, id="later", started="2026-01-03T00:00:00+00:00")) as writer:
        assert writer.resumed
        assert writer.run.id == "r1"
        assert outcome("a").key in writer.stored(Outcome)
        assert list(writer.stored(Measurement).values()) == [measurement()]
        writer.write(outcome("b"))
        writer.finish()
    assert [item.case for item in read(tmp_path).outcomes] == ["a", "b"]


@pytest.mark.parametrize(
    "changed",
    [
        {"suite": "s"},
        {"sources": {"attention/loops": "2b"}},
        {"versions": {"torch": "2.14.0"}},
        {"request": "x"},
        {"shard": "1/2"},
    ],
    ids=str,
)
def test_a_run_of_another_request_is_not_resumed(tmp_path, changed):
    record(tmp_path, RUN, outcome("a"), finish=False)

    with open_run(tmp_path, replace(RUN, **changed)) as writer:
        assert (writer.resumed, writer.run.id, writer.stored(Outcome)) == (False, "r1-2", {})


def test_a_run_that_is_killed_loses_no_row_that_was_written(tmp_path):
    rows = 'for number in range(50):\n    writer.write(outcome(f"case/{number:02}"))'
    with killed_at_the_end(tmp_path, f"writer = open_run(results, RUN)\n{rows}"):
        pass

    assert len(read(tmp_path).outcomes) == 50
    with open_run(tmp_path, RUN) as writer:
        assert (writer.resumed, len(writer.stored(Outcome)), writer.notes) == (True, 50, ())


def test_a_row_that_was_cut_off_by_a_crash_is_dropped_with_a_note(tmp_path):
    record(tmp_path, RUN, outcome("a"), outcome("b"), finish=False)
    journal = run_folder(tmp_path) / "outcomes.jsonl"
    journal.write_bytes(journal.read_bytes()[:-9])

    assert [item.case for item in read(tmp_path).outcomes] == ["a"]
    with open_run(tmp_path, RUN) as writer:
        assert "cut off" in writer.notes[0]
        writer.write(outcome("b"))
    assert [item.case for item in read(tmp_path).outcomes] == ["a", "b"]


def test_a_run_that_is_killed_while_it_is_finished_is_resumed(tmp_path, monkeypatch):
    with open_run(tmp_path, RUN) as writer:
        writer.write(outcome("a"))
        writer.write(measurement())
        blocked = run_folder(tmp_path) / f".run.json.{os.getpid()}.tmp"
        blocked.mkdir()
        with pytest.raises(UsageError, match="cannot be written"):
            writer.finish()
    blocked.rmdir()

    with open_run(tmp_path, RUN) as writer:
        assert (writer.resumed, len(writer.stored(Outcome)), len(writer.stored(Measurement))) == (True, 1, 1)
        writer.write(outcome("b"))
        writer.finish()
    assert [item.case for item in read(tmp_path).outcomes] == ["a", "b"]


def test_a_second_writer_is_refused_until_the_first_ends_or_is_killed(tmp_path):
    refused = pytest.raises(UsageError, match="another attnsuite is writing")
    with killed_at_the_end(tmp_path, "writer = open_run(results, RUN)"), refused:
        open_run(tmp_path, SECOND)

    open_run(tmp_path, SECOND).close()
    assert not (folder(tmp_path) / ".lock").exists()


def test_a_finished_run_is_never_changed_by_a_later_one(tmp_path):
    record(tmp_path, RUN, outcome("a"))
    before = {path.name: path.read_bytes() for path in run_folder(tmp_path).iterdir()}

    record(tmp_path, SECOND, outcome("a", "failed"))
    record(tmp_path, RUN, outcome("a", "error"))

    assert {path.name: path.read_bytes() for path in run_folder(tmp_path).iterdir()} == before
    assert machines(tmp_path) == [MACHINE.name]
    assert sorted(path.name for path in folder(tmp_path).iterdir()) == ["r1", "r1-2", "r2"]


@pytest.mark.parametrize(
    ("damage", "where"),
    [
        (lambda text: text.replace('"passed"', '"pased"'), "outcomes.jsonl.gz, line 1, field status"),
        (lambda text: text.replace('"error_ratio":0.5', '"error_ratio":-1'), "line 1, field error_ratio"),
        (lambda text: text.replace('"error_ratio":0.5', '"error_ratio":"x"'), "got `str`"),
        (lambda text: text.replace('"case":"b",', ""), "line 2: Object missing required field `case`"),
        (lambda text: text.replace('"status"', '"stats"'), "unknown field"),
        (lambda text: text[:-9], "line 2"),
        (lambda text: text.replace("passed", "\udc80", 1), "line 1"),
        (lambda text: "[" * 100_000, "line 1"),
    ],
    ids=map(str, range(8)),
)
def test_a_damaged_line_is_named_by_file_line_and_field(tmp_path, damage, where):
    record(tmp_path, RUN, outcome("a", error_ratio=0.5), outcome("b"))
    file = run_folder(tmp_path) / "outcomes.jsonl.gz"
    text = gzip.decompress(file.read_bytes()).decode()
    file.write_bytes(gzip.compress(damage(text).encode(errors="surrogateescape")))

    with pytest.raises(UsageError) as error:
        read(tmp_path)

    assert where in str(error.value)
    assert "git checkout HEAD" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["run.json", "facts.json.gz", "outcomes.jsonl.gz"])
@pytest.mark.parametrize("content", [b"", b"\x1f\x8b\x00", b"[]", b'{"format": 4}', b"\xff"], ids=str)
def test_a_file_with_other_content_is_refused_in_a_line(tmp_path, name, content):
    record(tmp_path, RUN, outcome("a"))
    (run_folder(tmp_path) / name).write_bytes(content)

    with pytest.raises(UsageError, match=name):
        read(tmp_path)


@pytest.mark.parametrize("number", [5, 3])
def test_another_format_is_refused(tmp_path, number):
    record(tmp_path, RUN, outcome("a"))
    header = tmp_path / MACHINE.name / RUN.id / "run.json"
    header.write_text(header.read_text().replace('"format": 4', f'"format": {number}'))

    with pytest.raises(UsageError, match=f"format {number} is not format 4.*update attnsuite"):
        read(tmp_path)


def test_a_full_disk_keeps_the_rows_before_it(tmp_path, monkeypatch):
    with open_run(tmp_path, RUN) as writer:
        writer.write(outcome("a"))
        real, calls = os.write, []

        def full(file, data):
            calls.append(data)
            if len(calls) > 1:
                raise OSError(28, "No space left on device")
            return real(file, data[:5])

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(UsageError, match="No space left"):
            writer.write(outcome("b"))
        monkeypatch.undo()
        writer.finish()
    assert [item.case for item in read(tmp_path).outcomes] == ["a"]


def test_a_folder_that_cannot_be_written_is_refused_in_a_line(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match="cannot be written"):
        open_run(tmp_path / "file", RUN)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", ".hidden"])
def test_a_machine_whose_name_is_no_folder_is_refused(tmp_path, name):
    with pytest.raises(UsageError, match="name is also its folder"):
        open_run(tmp_path, replace(RUN, machine=replace(MACHINE, name=name)))


def test_two_machines_of_one_name_that_differ_have_a_folder_each(tmp_path):
    record(tmp_path, RUN, outcome("a"))
    other = replace(MACHINE, cores=4, threads=8)

    with open_run(tmp_path, replace(SECOND, machine=other)) as writer:
        assert writer.folder.parent.name == "amd-epyc-2-cores-4-cores-8-threads"
        assert "a machine with 2 cores, not 4" in writer.notes[0]
    with open_run(tmp_path, replace(THIRD, machine=replace(MACHINE, memory_bytes=8 * 2**30 + 4096))) as writer:
        assert writer.folder.parent.name == MACHINE.name


def test_a_shard_that_is_finished_is_known_by_its_request(tmp_path):
    part = replace(RUN, shard="1/2")
    assert finished_shard(tmp_path, part) is None

    record(tmp_path, part, outcome("a"), finish=False)
    assert finished_shard(tmp_path, part) is None
    record(tmp_path, part, outcome("b"))

    assert [item.case for item in finished_shard(tmp_path, part)] == ["a", "b"]
    assert finished_shard(tmp_path, replace(part, shard="2/2")) is None


def test_load_gives_a_table_with_typed_columns(tmp_path):
    record(tmp_path, RUN, outcome("a", error_ratio=math.inf), outcome("b"), measurement(memory={"resident": 8.0}))

    outcomes, timed = load(tmp_path), load(tmp_path, "benchmark")

    assert outcomes.error_ratio.tolist()[0] == math.inf
    assert math.isnan(outcomes.error_ratio.tolist()[1])
    assert outcomes[["machine", "run", "torch", "case"]].values.tolist()[0] == [MACHINE.name, "r1", "2.13.0", "a"]
    assert str(outcomes.started[0]) == "2026-01-02 03:04:05+00:00"
    assert timed[["median", "peak"]].values.tolist() == [[0.375, 8.0]]
    assert load(tmp_path, "claims").empty


def test_load_refuses_another_kind_and_a_missing_folder(tmp_path):
    with pytest.raises(UsageError, match="conformance, benchmark, learning, claims"):
        load(tmp_path, "speed")
    with pytest.raises(UsageError, match="no folder"):
        load(tmp_path / "nothing")
