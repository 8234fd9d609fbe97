"""`verify` of a machine's folder: what no honest run can have is refused with its place, though digests are right."""

import gzip
import os
from datetime import UTC, datetime, timedelta

import pytest
from honest import CEILINGS, HONEST, NOW, claim, refusals, timed, trained
from msgspec.structs import replace
from stored import folder, journal, measurement, outcome, read, record, table

from attnsuite.model import Evidence, Facts, Holds, UsageError, regular
from attnsuite.results.store import Results, contents, ranges, together, verify

HONEST_ROWS = (
    outcome("a", error_ratio=0.5, seconds=0.25),
    timed(calls=3),
    trained(),
    claim(2.0, 2.0, 2.0),
)


def test_what_is_said_of_an_implementation_is_of_no_case_that_its_run_notes(tmp_path):
    about_all = outcome("*", "missing", dtype="*", detail="No module named 'jax'")
    record(tmp_path, HONEST, outcome("declared/causal", "wrong", dtype="*", detail="remove it"), about_all)

    assert verify(folder(tmp_path)).refusals == ()


def test_what_an_honest_run_wrote_is_verified(tmp_path):
    record(tmp_path, HONEST, *HONEST_ROWS)

    found = verify(folder(tmp_path))

    assert found.refusals == ()
    assert found.recorded == read(tmp_path)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (outcome("a", seconds=-0.5), "conformance.jsonl, line 1: seconds is -0.5, not between 0 and"),
        (outcome("a", seconds=1e6), "conformance.jsonl, line 1: seconds is 1e+06, not between 0 and"),
        (outcome("a", error_ratio=-1.0), "conformance.jsonl, line 1: error_ratio is -1, below 0"),
        (outcome("a", error_ratio=float("inf")), "it passed, and its error_ratio is infinite"),
        (outcome("c"), "its run notes no case 'c' of attention"),
        (outcome("a", dtype="int4"), "dtype is 'int4'"),
        (outcome("a", name="attention/mine"), "its run names no source of attention/mine"),
        (outcome("a", "wrong", known="pt-9"), "its run notes no finding 'pt-9'"),
        (measurement(calls=10**18), "benchmark.jsonl, line 1: 1e+18 calls of 0.375 s in each of 2 samples are"),
        (measurement(calls=0), "calls is 0, and it has seconds"),
        (measurement(calls=1, seconds=(1e9,)), "1 calls of 1e+09 s"),
        (measurement(calls=1, first_call=-1.0), "first_call is -1, not between 0 and"),
        (measurement(calls=1, warm_up=1e9), "warm_up is 1e+09"),
        (measurement(calls=1, memory={"resident": -4096.0}), "memory.resident is -4096"),
        (measurement(calls=1, memory={"resident": 1e15}), "memory.resident is 1e+15 bytes, and the machine has"),
        (measurement(calls=1, memory={"soul": 4096.0}), "memory.soul is no meter; there are: allocator, calibration"),
        (timed(calls=3, own_clock=0.0), "own_clock is 0, and no call takes that many times its time"),
        (timed(calls=3, own_clock=-1.0), "own_clock is -1, and no call takes"),
        (measurement(calls=1, threads=64), "threads is 64, and the machine has 2"),
        (measurement("other/1k", calls=1), "its run notes no workload 'other/1k'"),
        (measurement(status="declined", seconds=(0.5,), calls=1), "it is declined, and has seconds"),
        (measurement(calls=1, work={"attended": 1e12}, ceilings=CEILINGS), "FLOPs per second are more than the 1e+09"),
        (measurement(calls=1, work={"attended": 1e12}, ceilings=CEILINGS | {"age": 9.0}), "product in an earlier run"),
        (measurement(calls=1, work={"bytes": 1e12}, ceilings=CEILINGS, cache="cold"), "bytes per second are more than"),
        (measurement(calls=1, ceilings={"flops": 0.0}), "a ceiling is 0"),
        (trained(seconds=-1.0), "learning.jsonl, line 1: seconds is -1"),
        (trained(scores={"accuracy": float("nan")}), "scores.accuracy is nan"),
        (trained(config={"epochs": 9}), "the config has 9 epochs, and the curve 2"),
        (claim(2.0, 1.0, 3.0), "claims.jsonl, line 1: it is exact, and value, low and high are 2.0, 1.0, 3.0"),
        (claim(None, None, None), "it holds, and value, low and high are None"),
        (claim(2.0, 2.0, 2.0, holds=Holds.RAISED), "it raised, and value, low and high are"),
        (claim(5.0, 1.0, 3.0, evidence=Evidence.DRAWN, samples=(1.0, 2.0, 3.0)), "value is 5.0, and the samples"),
        (claim(2.0, 1.0, 3.0, evidence=Evidence.DRAWN), "it is drawn, and has no samples"),
    ],
    ids=lambda of: of[:50] if isinstance(of, str) else "",
)  # fmt: skip
def test_a_value_that_no_honest_run_has_is_refused_with_its_place(tmp_path, row, says):
    record(tmp_path, HONEST, row)

    said = refusals(tmp_path)

    assert any(says in each for each in said), said
    assert read(tmp_path).runs, "the loader reads it: every type and digest is right"


def test_a_run_has_ended_before_it_is_verified():
    ends = (NOW + timedelta(days=400)).isoformat(timespec="seconds")

    said = list(ranges.of_run(replace(HONEST, finished=ends)))

    assert f"finished is {ends}, which is still to come" in said
    assert not any("still to come" in each for each in ranges.of_run(replace(HONEST, finished=NOW.isoformat())))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"started": (NOW + timedelta(days=1)).isoformat(timespec="seconds")}, "before it started"),
        ({"started": "yesterday"}, "started is 'yesterday', which is no time"),
        ({"commit": "--output=x"}, "commit is '--output=x', which is none"),
        ({"suite": "suite-1"}, "the hash of suite is 'suite-1', not 12 hexadecimal digits"),
        ({"machine": replace(HONEST.machine, cores=0)}, "the machine has 0 cores and 2 threads"),
        ({"machine": replace(HONEST.machine, memory_bytes=0)}, "the machine has no memory"),
    ],
)
def test_a_run_that_cannot_be_is_refused(tmp_path, changed, says):
    record(tmp_path, replace(HONEST, **changed), outcome("a"))

    assert any(f"{says}" in each and each.startswith("runs.jsonl, line 1: ") for each in refusals(tmp_path))


def test_activities_that_took_longer_than_the_run_are_refused(tmp_path):
    record(tmp_path, HONEST, measurement(calls=1), seconds={"rounds": 1e6})

    assert any("seconds are 1e+06 in all, and the run took" in each for each in refusals(tmp_path))


def test_times_that_only_together_are_longer_than_the_run_are_refused(tmp_path):
    rows = [measurement(calls=50, seconds=(0.5,), dtype=dtype) for dtype in ("float16", "float32", "float64")]
    a_minute_ago = (datetime.now(UTC) - timedelta(seconds=60)).isoformat(timespec="seconds")
    record(tmp_path, replace(HONEST, started=a_minute_ago), *rows)

    found = refusals(tmp_path)
    assert any("the timed calls of the run r1 are 75 s, and it took" in each for each in found), found


def test_calls_beyond_all_counters_are_not_even_written(tmp_path):
    with (
        Results(tmp_path).open_run(HONEST) as writer,
        pytest.raises(ValueError, match="calls should be a whole number"),
    ):
        writer.write(measurement(calls=10**29))


def test_the_folder_of_another_machine_is_refused(tmp_path):
    record(tmp_path, HONEST, outcome("a"))
    moved = folder(tmp_path).rename(tmp_path / "apple-m2-8-cores")

    assert any("is of 'amd-epyc-2-cores', not of 'apple-m2-8-cores'" in str(each) for each in verify(moved).refusals)


def test_a_run_that_is_not_finished_is_refused(tmp_path):
    record(tmp_path, HONEST, outcome("a"), finish=False)

    (said,) = (each for each in refusals(tmp_path) if "is not finished, so nothing says what rows are due" in each)
    assert "; the command that began it, '" in said
    assert said.endswith("goes on from there with the same --results")


def test_everything_amiss_is_listed_each_with_its_place(tmp_path):
    record(tmp_path, HONEST, outcome("a"), outcome("b", "wrong"), measurement(calls=1), trained())
    for kind, row in (("conformance", "no row"), ("benchmark", '{"implementation": 3}'), ("learning", "{}")):
        with table(tmp_path, kind).open("a") as file:
            file.write(f"{row}\n")

    places = [each.partition(": ")[0] for each in refusals(tmp_path)]

    assert {"conformance.jsonl, line 3", "benchmark.jsonl, line 2", "learning.jsonl, line 2"} <= set(places)


def test_facts_that_no_run_names_are_refused(tmp_path):
    record(tmp_path, HONEST, outcome("a"))
    record(tmp_path / "other", replace(HONEST, facts=Facts(findings={"x": "y"})), outcome("a"))
    (folder(tmp_path) / "facts.json").write_text(
        (folder(tmp_path) / "facts.json").read_text().rstrip().removesuffix("}").rstrip()
        + ","
        + (folder(tmp_path / "other") / "facts.json").read_text().lstrip().removeprefix("{")
    )

    assert any("facts.json: no run here names the facts" in each for each in refusals(tmp_path))


def test_numbers_that_are_written_otherwise_are_named_by_their_line(tmp_path):
    record(tmp_path, HONEST, outcome("a", seconds=0.25), outcome("b", seconds=0.5))
    path = folder(tmp_path) / "conformance.seconds.gz"
    path.write_bytes(gzip.compress(b"0.25\n0.50\n"))

    assert "conformance.seconds.gz, line 2: '0.50' is not a number of 3 digits" in refusals(tmp_path)


def test_two_answers_of_one_run_contradict_each_other_and_the_later_does_not_win(tmp_path):
    record(tmp_path, HONEST, outcome("a"), finish=False)
    row = journal(tmp_path).read_text()
    journal(tmp_path).write_text(row + row.replace('"passed"', '"wrong"'))

    with pytest.raises(UsageError, match=r"journal\.jsonl, line 2: attention/loops a \S+ cpu has another answer"):
        read(tmp_path)


def test_the_same_answer_twice_is_one(tmp_path):
    record(tmp_path, HONEST, outcome("a"), finish=False)
    journal(tmp_path).write_text(journal(tmp_path).read_text() * 2)

    assert len(read(tmp_path).rows) == 1


def test_a_question_that_a_run_asks_again_says_so_and_the_later_answer_counts(tmp_path):
    record(tmp_path, HONEST, measurement(calls=1, seconds=(0.5,)), finish=False)
    record(tmp_path, HONEST, measurement(calls=1, seconds=(0.25,)), finish=False)

    assert '"again": true' in journal(tmp_path).read_text().splitlines()[1]
    assert [of.seconds for of in read(tmp_path).measurements] == [(0.25,)]


def test_rows_of_a_finished_run_that_contradict_each_other_are_refused_by_the_loader(tmp_path):
    record(tmp_path, HONEST, outcome("a"))
    there = contents.read(folder(tmp_path))
    there.outcomes.append(("r1", outcome("a", "wrong")))
    together.replace_together(folder(tmp_path), contents.written(there))

    with pytest.raises(UsageError, match=r"conformance\.jsonl, line 2: .* has another answer in line 1"):
        read(tmp_path)


def test_one_question_in_two_finished_runs_is_refused(tmp_path):
    record(tmp_path, HONEST, outcome("a"), outcome("b"))
    record(tmp_path, replace(HONEST, id="r2", suite="0" * 12), outcome("a"))
    there = contents.read(folder(tmp_path))
    there.outcomes.append(("r1", outcome("a", "wrong")))
    together.replace_together(folder(tmp_path), contents.written(there))

    assert any("is answered by the run" in each for each in refusals(tmp_path))
    assert [of.status for of in read(tmp_path).outcomes] == ["passed", "passed"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("conformance.jsonl", "[" * 5000),
        ("conformance.jsonl", '{"a": ' * 500 + "1" + "}" * 500),
        ("conformance.jsonl", '{"implementation": "a", "implementation": "b"}'),
        ("benchmark.jsonl", '{"implementation": "attention/loops", "device": "cpu", "calls": 1e999}'),
        ("runs.jsonl", '{"format": 2, "id": "r9", "started": "", "machine": {}, "rows": {"conformance": 5}}'),
        ("runs.jsonl", '{"format": 2, "id": "r9", "started": "", "machine": {"name": 5}}'),
        ("runs.jsonl", '{"format": 2, "id": "r9", "started": "", "machine": [], "facts": [1]}'),
        ("runs.jsonl", '{"format": 3, "id": "r9"}'),
        ("journal.jsonl", '{"run": "r1", "task": []}'),
        ("facts.json", '{"a": ' * 500 + "1" + "}" * 500),
        ("facts.json", '["a"]'),
    ],
)
def test_no_row_crashes_the_loader_or_verify(tmp_path, name, text):
    record(tmp_path, HONEST, *HONEST_ROWS)
    with (folder(tmp_path) / name).open("a") as file:
        file.write(f"{text}\n")

    with pytest.raises(UsageError, match=name):
        read(tmp_path)
    assert any(each.startswith(name) for each in refusals(tmp_path))


def test_a_pipe_in_place_of_a_file_is_refused(tmp_path):
    record(tmp_path, HONEST, outcome("a"))
    table(tmp_path).unlink()
    os.mkfifo(table(tmp_path))

    with pytest.raises(UsageError, match=r"conformance\.jsonl cannot be read: it is not a regular file"):
        read(tmp_path)
    assert refusals(tmp_path)


def test_numbers_that_unpack_to_more_than_fits_are_refused(tmp_path, monkeypatch):
    record(tmp_path, HONEST, outcome("a", seconds=0.25))
    monkeypatch.setattr(regular, "LARGEST", 2000)
    (folder(tmp_path) / "conformance.seconds.gz").write_bytes(gzip.compress(b"0.25\n" * 1000))
    monkeypatch.setattr(together, "read_bytes", lambda path: path.read_bytes())

    with pytest.raises(UsageError, match=r"conformance\.seconds\.gz: this cannot be unpacked"):
        read(tmp_path)
