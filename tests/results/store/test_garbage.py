"""Garbage in any file is refused in one line that names its place, and nothing is written over it."""

import json
import math

import pytest
from stored import MACHINE, RUN, folder, journal, measurement, outcome, read, record, table

from attnsuite.model import UsageError
from attnsuite.results.store import Results, load, read_outcomes, rows

USES = (
    lambda results: Results(results).open_run(RUN),
    read_outcomes,
    load,
    lambda results: load(results, "benchmark"),
)
"""All that reads a folder."""


def row(**changes):
    """A row of the run r1, but for the changes."""
    names = ("implementation", "contract", "case", "dtype", "device")
    return json.dumps({"run": "r1", **dict.fromkeys(names, "x"), "status": "passed", **changes}).encode()


def timed(**changes):
    """A row of a measurement of the run r1, but for the changes."""
    return json.dumps({"run": "r1", **rows.lean(measurement()), **changes}).encode()


def refused(results, use, pattern):
    with pytest.raises(UsageError, match=pattern) as refusal:
        use(results)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 600
    return str(refusal.value)


@pytest.mark.parametrize(
    ("version", "remedy"), [(3, "update yours"), (0, "run anew"), (None, "run anew"), ("x", "run anew")]
)
def test_another_format_is_refused_with_its_place(tmp_path, version, remedy):
    record(tmp_path, RUN, outcome())
    runs = folder(tmp_path) / "runs.jsonl"
    runs.write_text(runs.read_text() + json.dumps({"format": version, "shape": "unknown"}) + "\n")
    before = runs.read_bytes(), table(tmp_path).read_bytes()

    for use in USES:
        refused(tmp_path, use, rf"runs\.jsonl, line 2: the format is {version!r} .*{remedy}")
    assert before == (runs.read_bytes(), table(tmp_path).read_bytes())


@pytest.mark.parametrize(
    "garbage",
    [
        b"<<<<<<< HEAD",
        b"\x00\xff\xfe",
        b"[1, 2]",
        b"12",
        b"{}",
        b'{"run": "r1"}',
        row(run="r9"),
        row(run=None),
        row(status="fine"),
        row(implementation=5),
        row(surprise=1),
        row(seconds=[1]),
        row(error_ratio="large"),
        b"[" * 100_000,
    ],
)
@pytest.mark.parametrize("finish", [True, False])
def test_garbage_among_outcomes_is_refused_with_its_place(tmp_path, garbage, finish):
    record(tmp_path, RUN, outcome("a"), outcome("b", "wrong"), finish=finish)
    file = table(tmp_path) if finish else journal(tmp_path)
    first, second = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(first + garbage + b"\n" + second)
    before = file.read_bytes()

    for use in USES:
        refused(tmp_path, use, rf"{file.name}, line 2: ")
    assert file.read_bytes() == before


def test_the_row_that_the_garbage_is_made_of_is_none(tmp_path):
    record(tmp_path, RUN, measurement("a"), finish=False)
    journal(tmp_path).write_bytes(timed(workload="b", memory={"driver": None}, direction="*", cache="*") + b"\n")

    assert read(tmp_path).measurements[0].memory == {"driver": None}


@pytest.mark.parametrize(
    ("garbage", "says"),
    [
        (timed(run="r9"), "runs.jsonl has no run 'r9'"),
        (timed(status="passed"), "status is 'passed', not one of measured"),
        (timed(direction="sideways"), "direction is 'sideways', not one of forward"),
        (timed(cache="warm"), "cache is 'warm', not one of hot, cold"),
        (timed(workload=None), "workload should be a text"),
        (timed(surprise=1), "surprise"),
        (b'{"run": "r1", "implementation": "x", "workload": "y"}', "missing 7 required positional arguments"),
        (timed(threads="1"), "threads should be a whole number, not '1'"),
        (timed(threads=1.5), "threads should be a whole number"),
        (timed(threads=True), "threads should be a whole number"),
        (timed(threads=-1), "threads should be a whole number"),
        (timed(calls=None), "calls should be a whole number"),
        (timed(seconds=0.5), "seconds should be a list, not 0.5"),
        (timed(seconds="0.5"), "seconds should be a list"),
        (timed(seconds={"0": 1}), "seconds should be a list"),
        (timed(seconds=[0.5, "x"]), "seconds should be a number, not 'x'"),
        (timed(seconds=[True]), "seconds should be a number, not True"),
        (timed(seconds=[None]), "seconds should be a number, not None"),
        (timed(seconds=[0.5, 0.0]), "seconds should be positive and finite"),
        (timed(seconds=[-0.5]), "seconds should be positive and finite"),
        (timed(seconds=["inf"]), "seconds should be positive and finite"),
        (timed(seconds=[math.nan]), "seconds should be positive and finite"),
        (timed(seconds=[]), "status is measured, yet there are no seconds"),
        (timed(processes="010"), "processes should have a digit for each of 2 samples"),
        (timed(processes="0x"), "processes should have a digit for each of 2 samples"),
        (timed(processes=[0, 1, 0]), "processes should be a text"),
        (timed(seconds=[10**400]), "seconds should be a number"),
        (timed(first_call="soon"), "first_call should be a number, not 'soon'"),
        (timed(first_call=True), "first_call should be a number, not True"),
        (timed(memory=[1]), "memory should be an object"),
        (timed(memory={"resident": "much"}), "memory.resident should be a number, not 'much'"),
        (timed(work={"bytes": [1]}), "work.bytes should be a number"),
        (timed(ceilings=None), "ceilings should be an object"),
        (timed(telemetry="hot"), "telemetry should be an object, not 'hot'"),
    ],
)
def test_garbage_among_measurements_is_refused_with_its_place_and_reason(tmp_path, garbage, says):
    record(tmp_path, RUN, measurement("a"), measurement("b"), finish=False)
    first, second = journal(tmp_path).read_bytes().splitlines(keepends=True)
    journal(tmp_path).write_bytes(first + garbage + b"\n" + second)
    before = journal(tmp_path).read_bytes()

    for use in USES:
        assert says in refused(tmp_path, use, r"journal\.jsonl, line 2: ")
    assert journal(tmp_path).read_bytes() == before


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"cases": "b"}, "cases should be a list, not 'b'"),
        ({"dtypes": None}, "dtypes should be a list, not None"),
        ({"cases": [5]}, "cases should be a text, not 5"),
        ({"device": "cuda"}, "no run says that it holds rows of attention/loops on cuda"),
    ],
)
def test_a_finished_row_that_is_none_is_refused_with_its_place_and_reason(tmp_path, change, says):
    record(tmp_path, RUN, outcome("a"))
    table(tmp_path).write_text(json.dumps(json.loads(table(tmp_path).read_text()) | change) + "\n")

    for use in USES:
        assert says in refused(tmp_path, use, r"conformance\.jsonl, line 1: ")


@pytest.mark.parametrize(
    "change",
    [
        {"id": 5},
        {"machine": []},
        {"machine": {}},
        {"versions": "x"},
        {"surprise": 1},
        {"sources": None},
        {"started": 1},
        {"facts": {"contracts": ["a"]}},
    ],
)
@pytest.mark.parametrize("finish", [True, False])
def test_a_run_that_is_none_is_refused_with_its_place(tmp_path, change, finish):
    record(tmp_path, RUN, finish=finish)
    runs = folder(tmp_path) / "runs.jsonl"
    runs.write_text(json.dumps(json.loads(runs.read_text()) | change) + "\n")

    with pytest.raises(UsageError, match=r"runs\.jsonl, line 1: "):
        Results(tmp_path).read(MACHINE.name)


@pytest.mark.parametrize("name", ["benchmark.jsonl", "conformance.jsonl", "journal.jsonl", "facts.json"])
def test_garbage_is_refused_before_a_run_starts(tmp_path, name):
    folder(tmp_path).mkdir()
    (folder(tmp_path) / name).write_text("garbage\n")

    with pytest.raises(UsageError, match=name):
        Results(tmp_path).open_run(RUN)
