"""Measurements survive as outcomes do, and neither kind of row disturbs the other."""

import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType

import pytest

from suite.records import EVERY_CASE, Facts, Machine, Measurement, Outcome, Reason, Run, UsageError
from suite.store import Recorded, Results, load, read_outcomes, rows

MACHINE = Machine("amd-epyc-2-cores", "AMD EPYC", 2, 2, 8 * 2**30, "Linux", ("NVIDIA H200",))
RUN = Run("r1", "2026-01-02T03:04:05+00:00", MACHINE, {"torch": "2.13.0"}, "abc", {"attention/loops": "1a"}, "suite-1")
SECOND = replace(RUN, id="r2", suite="suite-2")


def outcome(case="small/plain", status="passed", name="attention/loops", **others):
    return Outcome(name, "attention", case, others.pop("dtype", "float32"), "cpu", status, **others)


def measurement(workload="ladder/1k", status="measured", name="attention/loops", **others):
    if status == "measured":
        others.setdefault("seconds", (0.25, 0.5))
    asked = {"dtype": "float32", "device": "cpu", "threads": 1, "direction": "forward", "cache": "hot", **others}
    return Measurement(name, "attention", workload, status=status, **asked)


MISSING = measurement(
    EVERY_CASE, "missing", detail="No module named 'jax'", dtype=EVERY_CASE, direction=EVERY_CASE, cache=EVERY_CASE
)
FULL = measurement(
    detail="a\n| detail √",
    seconds=(0.001, 0.00123456, 2.0),
    calls=7,
    stopped="narrow",
    first_call=1.5,
    making={"factory": 3.5, "export": 3.0},
    warm_up=0.25,
    memory={"output": 262144, "resident": 1048580.0, "allocator": None},
    work={"attended": 1e9, "bytes": 4096.0},
    ceilings={"flops": 1e11},
    error_ratio=0.125,
    kernel="aten::bmm, aten::softmax",
    telemetry={"sm_clock": [1980, 1980.5], "power_absent": "no NVML", "throttle": {"thermal": False}},
    known="a-finding",
    reason=Reason.TOO_SLOW,
)


def folder(tmp_path):
    return tmp_path / MACHINE.name


def table(tmp_path, kind="benchmark"):
    return folder(tmp_path) / f"{kind}.jsonl"


def record(tmp_path, run, *records, finish=True, **options):
    with Results(tmp_path).open_run(run) as writer:
        for each in records:
            writer.write(each)
        if finish:
            writer.finish(**options)
    return writer


def read(tmp_path):
    return Results(tmp_path).read(MACHINE.name)


def killed_when_ready(tmp_path, program):
    """Run a program that has a writer open on tmp_path; it is killed with SIGKILL when it says that it is ready."""
    head = f"""
import os, sys, time
sys.path[:0] = {[str(Path(__file__).parent)]!r}
from test_results_benchmark import *
writer = Results({str(tmp_path)!r}).open_run(RUN)
def ready(*_):
    print("ready", flush=True)
    time.sleep(60)
"""
    child = subprocess.Popen([sys.executable, "-c", head + program], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    child.stdout.close()


# Rows


def test_a_measurement_is_read_back_field_by_field(tmp_path):
    assert all(getattr(FULL, field.name) for field in fields(FULL))  # a new field is to be written here

    record(tmp_path, RUN, FULL, measurement("b", "out_of_memory"), MISSING, finish=False)

    assert read(tmp_path).measured == (("r1", MISSING), ("r1", measurement("b", "out_of_memory")), ("r1", FULL))
    assert isinstance(read(tmp_path).measurements[2].seconds, tuple)


def test_rows_are_lean_at_six_digits_and_keep_every_sample(tmp_path):
    samples = (0.00123456789, 0.1, 0.1, 12.3456789)
    memory = MappingProxyType({"output": 12345678, "resident": 12345678.9})
    record(tmp_path, RUN, measurement(seconds=samples, memory=memory), finish=False)

    assert json.loads(table(tmp_path).read_text()) == {
        "run": "r1",
        "implementation": "attention/loops",
        "contract": "attention",
        "workload": "ladder/1k",
        "dtype": "float32",
        "device": "cpu",
        "threads": 1,
        "direction": "forward",
        "cache": "hot",
        "status": "measured",
        "seconds": [0.00123457, 0.1, 0.1, 12.3457],
        "memory": {"output": 12345678, "resident": 12345700.0},
    }


def test_rows_are_strict_json_however_deep_a_number_is_no_number(tmp_path):
    odd = measurement(error_ratio=math.inf, telemetry={"power": [math.nan, {"x": -math.inf}]}, work={"bytes": math.inf})
    record(tmp_path, RUN, odd, finish=False)

    def refuse(constant):
        raise AssertionError(constant)

    row = json.loads(table(tmp_path).read_text(), parse_constant=refuse)
    assert row["telemetry"] == {"power": ["nan", {"x": "-inf"}]}
    assert read(tmp_path).measurements[0].error_ratio == math.inf
    assert read(tmp_path).measurements[0].work == {"bytes": math.inf}


def test_megabytes_of_text_are_cut_however_deep(tmp_path):
    record(tmp_path, RUN, measurement("a", "raised", detail="x" * 5_000_000, telemetry={"why": ["y" * 5_000_000]}))

    assert table(tmp_path).stat().st_size < 5000
    assert read(tmp_path).measurements[0].detail.endswith("(5000000 characters)")


def test_what_could_not_be_read_again_is_not_written(tmp_path):
    with Results(tmp_path).open_run(RUN) as writer:
        writer.write(measurement("a"))
        for broken in (
            measurement(seconds=(0.0,)),
            measurement(seconds=()),
            measurement(status="fine"),
            outcome(status="?"),
        ):
            with pytest.raises(ValueError, match=r"seconds|status"):
                writer.write(broken)

    assert read(tmp_path).measurements == [measurement("a")]


# Crashes


def test_kill_in_the_middle_of_a_measurement_loses_that_row_only(tmp_path):
    killed_when_ready(
        tmp_path,
        """
for number in range(3):
    writer.write(measurement(f"ladder/{number}"))
writer.write(outcome())
write = os.write
def half(file, data):
    write(file, data[:len(data) // 2])
    ready()
os.write = half
writer.write(measurement("ladder/3"))
""",
    )
    assert not table(tmp_path).read_bytes().endswith(b"\n")

    assert len(read(tmp_path).measured) == 3  # a reader passes over it
    with Results(tmp_path).open_run(RUN) as writer:
        assert writer.resumed
        assert writer.recorded_measurements == [measurement(f"ladder/{number}") for number in range(3)]
        assert writer.measured == {each.key for each in writer.recorded_measurements}
        assert (writer.recorded, writer.done) == ([outcome()], {outcome().key})
        assert "benchmark.jsonl: the last row was cut off by a crash" in writer.notes[0]
        writer.write(measurement("ladder/3"))
        writer.finish()

    assert len(read(tmp_path).measured) == 4


def test_kill_between_the_tables_leaves_rows_that_can_be_read(tmp_path):
    record(tmp_path, replace(RUN, id="r0", suite="suite-0"), outcome(), measurement())
    killed_when_ready(
        tmp_path,
        """
from suite.store import files
writer.write(outcome())
writer.write(measurement())
replaced = files.replace_file
files.replace_file = lambda path, text: ready() if path.name == "benchmark.jsonl" else replaced(path, text)
writer.finish()
""",
    )

    assert len(table(tmp_path, "conformance").read_text().splitlines()) == 1
    assert len(table(tmp_path).read_text().splitlines()) == 2
    assert record(tmp_path, RUN).resumed
    assert len(table(tmp_path).read_text().splitlines()) == 1
    assert [*read(tmp_path).runs] == ["r1"]


def test_a_whole_last_measurement_without_its_end_is_kept(tmp_path):
    record(tmp_path, RUN, measurement("a"), measurement("b"), finish=False)
    table(tmp_path).write_bytes(table(tmp_path).read_bytes().rstrip(b"\n"))

    assert record(tmp_path, RUN, measurement("c")).notes == ()
    assert [row.workload for row in read(tmp_path).measurements] == ["a", "b", "c"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
def test_a_full_disk_leaves_the_earlier_measurements(tmp_path):
    writer = Results(tmp_path).open_run(RUN)
    writer.write(measurement("a"))
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, writer._files["benchmark.jsonl"])
    os.close(full)

    with pytest.raises(UsageError, match=r"benchmark\.jsonl cannot be written: No space left on device"):
        writer.write(measurement("b"))
    writer.write(outcome())
    writer.close()

    assert writer.measured == {measurement("a").key}
    assert (read(tmp_path).measurements, read(tmp_path).outcomes) == ([measurement("a")], [outcome()])


def test_a_full_disk_during_compaction_leaves_the_measurements(tmp_path, monkeypatch):
    writer = Results(tmp_path).open_run(RUN)
    writer.write(measurement("b"))
    writer.write(measurement("a"))
    before = table(tmp_path).read_bytes()

    def full(file):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(UsageError, match=r"benchmark\.jsonl cannot be written: No space left on device"):
            writer.finish(profile="quick")
    assert table(tmp_path).read_bytes() == before
    assert (writer.run.finished, writer.run.facts) == ("", Facts())
    assert writer.finish().finished  # there is room again
    assert table(tmp_path).read_bytes() != before


def test_a_closed_run_takes_no_measurements(tmp_path):
    writer = record(tmp_path, RUN)

    with pytest.raises(ValueError, match="closed"):
        writer.write(measurement())
    assert sorted(file.name for file in folder(tmp_path).iterdir()) == ["runs.jsonl"]


# Resuming


def test_a_resumed_run_knows_its_own_measurements_only(tmp_path):
    record(tmp_path, SECOND, measurement("old"))
    record(tmp_path, RUN, measurement("a", "raised"), outcome(), finish=False)
    record(tmp_path, RUN, measurement("a"), finish=False)

    writer = record(tmp_path, RUN, finish=False)

    assert writer.recorded_measurements == [measurement("a")]
    assert writer.measured == {measurement("a").key}
    assert writer.done == {outcome().key}


@pytest.mark.parametrize(
    "change",
    [
        {"workload": "b"},
        {"dtype": "float16"},
        {"device": "cuda"},
        {"threads": 2},
        {"direction": "backward"},
        {"cache": "cold"},
        {"name": "attention/matmul"},
    ],
)
def test_what_is_asked_differently_is_another_row(tmp_path, change):
    other = measurement(**change)
    record(tmp_path, RUN, measurement(), other)

    assert record(tmp_path, SECOND, measurement(seconds=(1.0,))).measured == {measurement().key}
    assert {row.key: run for run, row in read(tmp_path).measured} == {measurement().key: "r2", other.key: "r1"}


# Compaction


def test_a_newer_run_supersedes_the_same_measurement(tmp_path):
    record(tmp_path, RUN, measurement("a", seconds=(1.0,)), measurement("b"))
    record(tmp_path, SECOND, measurement("a"))

    assert read(tmp_path).measured == (("r2", measurement("a")), ("r1", measurement("b")))
    assert len(table(tmp_path).read_text().splitlines()) == 2


def test_a_missing_library_outdates_older_measurements_and_the_reverse(tmp_path):
    elsewhere = [measurement("a", device="cuda", threads=0), measurement("a", name="attention/matmul")]
    record(tmp_path, RUN, measurement("a"), measurement("b"), *elsewhere)
    record(tmp_path, SECOND, MISSING)
    assert read(tmp_path).measurements == [MISSING, *elsewhere]

    record(tmp_path, replace(RUN, id="r3", suite="suite-3"), measurement("a"))
    assert read(tmp_path).measurements == [measurement("a"), *elsewhere]


def test_a_missing_library_of_one_kind_says_nothing_of_the_other(tmp_path):
    record(tmp_path, RUN, outcome(), measurement())
    record(tmp_path, SECOND, MISSING)
    assert read(tmp_path).outcomes == [outcome()]

    record(tmp_path, replace(RUN, id="r3", suite="suite-3"), measurement(), outcome(EVERY_CASE, "missing"))
    assert read(tmp_path).measurements == [measurement()]


@pytest.mark.parametrize(("mine", "theirs"), [("benchmark", "conformance"), ("conformance", "benchmark")])
def test_a_run_of_one_kind_leaves_the_other_table_alone(tmp_path, mine, theirs):
    make = {"benchmark": measurement, "conformance": outcome}
    record(tmp_path, RUN, make[theirs]("b"), make[theirs]("a"), finish=False)  # not compact: neither sorted nor newest
    record(tmp_path, SECOND, make[theirs]("a"), finish=False)
    before = table(tmp_path, theirs).read_bytes()

    third = record(tmp_path, replace(RUN, id="r3", suite="suite-3"), make[mine]("a"), whole=["attention/loops"])

    assert table(tmp_path, theirs).read_bytes() == before
    assert [*read(tmp_path).runs] == ["r1", "r2", third.run.id]


def test_runs_stay_while_a_row_of_either_kind_refers_to_them(tmp_path):
    record(tmp_path, RUN, outcome(), measurement())
    record(tmp_path, SECOND, outcome())
    record(tmp_path, replace(RUN, id="r3", suite="suite-3"), outcome())
    assert [*read(tmp_path).runs] == ["r1", "r3"]

    record(tmp_path, replace(RUN, id="r4", suite="suite-4"), measurement())
    assert [*read(tmp_path).runs] == ["r3", "r4"]


def test_whole_is_about_outcomes_only(tmp_path):
    record(tmp_path, RUN, outcome("gone"), measurement("full/16k"))
    record(tmp_path, SECOND, outcome("a"), measurement("quick/1k"), whole=["attention/loops"])

    assert read(tmp_path).outcomes == [outcome("a")]
    assert read(tmp_path).measurements == [measurement("full/16k"), measurement("quick/1k")]


@pytest.mark.parametrize("records", [[measurement("a")], [outcome()]])
def test_workloads_that_exist_no_more_go(tmp_path, records):
    jax = replace(MISSING, implementation="attention/jax_nn")
    gone = measurement("gone", name="attention/matmul")
    record(tmp_path, RUN, measurement("a"), measurement("b"), gone, jax)

    record(tmp_path, SECOND, *records, workloads={"attention": {"a", "b"}})

    assert read(tmp_path).measurements == [jax, measurement("a"), measurement("b")]
    assert len(table(tmp_path).read_text().splitlines()) == 3


def test_other_contracts_keep_their_workloads(tmp_path):
    record(tmp_path, RUN, measurement("a"), measurement("b"))

    record(tmp_path, SECOND, replace(measurement("c"), contract="transformer"), workloads={"transformer": {"c"}})

    assert sorted(row.workload for row in read(tmp_path).measurements) == ["a", "b", "c"]


def test_without_a_list_of_workloads_all_stay(tmp_path):
    record(tmp_path, RUN, measurement("gone"))
    record(tmp_path, SECOND, measurement("a"), workloads=None)
    assert [row.workload for row in read(tmp_path).measurements] == ["a", "gone"]

    record(tmp_path, replace(RUN, id="r3", suite="suite-3"), outcome(), workloads={"attention": []})
    assert read(tmp_path).measurements == []


def test_what_was_timed_and_for_how_long_joins_the_facts_of_the_start(tmp_path):
    started = Facts(findings={"a": "in words"})

    finished = record(
        tmp_path, replace(RUN, facts=started), measurement(), profile="quick", seconds={"rounds": 1.5}
    ).run

    assert finished.facts == replace(started, profile="quick", seconds={"rounds": 1.5})
    assert read(tmp_path).run == finished


# Which run


def test_each_kind_has_its_own_newest_run(tmp_path):
    record(tmp_path, RUN, outcome("a"), outcome("a", name="attention/chunked"), measurement("a"))
    record(tmp_path, SECOND, outcome("a"))
    record(tmp_path, replace(RUN, id="r3", suite="suite-3"), measurement("b"), finish=False)

    recorded = read(tmp_path)

    assert [run.id for run in (recorded.checked_run, recorded.measured_run, recorded.run)] == ["r2", "r3", "r3"]
    assert {name: run.id for name, run in recorded.earlier.items()} == {"attention/chunked": "r1"}


def test_without_rows_of_a_kind_it_has_no_run(tmp_path):
    record(tmp_path, RUN)
    assert (read(tmp_path).checked_run, read(tmp_path).measured_run, read(tmp_path).earlier) == (None, None, {})

    record(tmp_path, RUN, measurement())
    assert (read(tmp_path).checked_run, read(tmp_path).earlier) == (None, {})
    assert Recorded("m", {}, ()).measured_run is None


# What cannot be read


def row(**changes):
    """A row of the run r1, but for the changes."""
    return json.dumps({"run": "r1", **rows.lean(measurement()), **changes}).encode()


def test_the_row_that_the_garbage_is_made_of_is_none(tmp_path):
    record(tmp_path, RUN, measurement("a"))
    table(tmp_path).write_bytes(row(workload="b", memory={"driver": None}, direction="*", cache="*") + b"\n")

    assert read(tmp_path).measurements[0].memory == {"driver": None}


@pytest.mark.parametrize(
    ("garbage", "says"),
    [
        (b"<<<<<<< HEAD", "this is no row of results"),
        (b"\x00\xff\xfe", "this is no row of results"),
        (b"{}", "run should be a text, not None"),
        (row(run="r9"), "runs.jsonl has no run 'r9'"),
        (row(status="passed"), "status is 'passed', not one of measured"),
        (row(direction="sideways"), "direction is 'sideways', not one of forward"),
        (row(cache="warm"), "cache is 'warm', not one of hot, cold"),
        (row(workload=None), "workload should be a text"),
        (row(surprise=1), "surprise"),
        (b'{"run": "r1", "implementation": "x"}', "missing 8 required positional arguments"),
        (row(threads="1"), "threads should be a whole number, not '1'"),
        (row(threads=1.5), "threads should be a whole number"),
        (row(threads=True), "threads should be a whole number"),
        (row(threads=-1), "threads should be a whole number"),
        (row(calls=None), "calls should be a whole number"),
        (row(seconds=0.5), "seconds should be a list, not 0.5"),
        (row(seconds="0.5"), "seconds should be a list"),
        (row(seconds={"0": 1}), "seconds should be a list"),
        (row(seconds=[0.5, "x"]), "seconds should be a number, not 'x'"),
        (row(seconds=[True]), "seconds should be a number, not True"),
        (row(seconds=[None]), "seconds should be a number, not None"),
        (row(seconds=[0.5, 0.0]), "seconds should be positive and finite"),
        (row(seconds=[-0.5]), "seconds should be positive and finite"),
        (row(seconds=["inf"]), "seconds should be positive and finite"),
        (row(seconds=[math.nan]), "seconds should be positive and finite"),
        (row(seconds=[]), "status is measured, yet there are no seconds"),
        (row(seconds=[10**400]), "seconds should be a number"),
        (row(first_call="soon"), "first_call should be a number, not 'soon'"),
        (row(first_call=True), "first_call should be a number, not True"),
        (row(memory=[1]), "memory should be an object"),
        (row(memory={"resident": "much"}), "memory.resident should be a number, not 'much'"),
        (row(work={"bytes": [1]}), "work.bytes should be a number"),
        (row(ceilings=None), "ceilings should be an object"),
        (row(telemetry="hot"), "telemetry should be an object, not 'hot'"),
        (b"[" * 100_000, "this is no row of results"),
    ],
)
def test_garbage_among_measurements_is_refused_with_its_place_and_reason(tmp_path, garbage, says):
    record(tmp_path, RUN, measurement("a"), measurement("b"))
    first, second = table(tmp_path).read_bytes().splitlines(keepends=True)
    table(tmp_path).write_bytes(first + garbage + b"\n" + second)
    before = table(tmp_path).read_bytes()

    uses = (
        Results(tmp_path).open_run,
        lambda _: read_outcomes(tmp_path),
        lambda _: load(tmp_path),
        lambda _: load(tmp_path, "benchmark"),
    )
    for use in uses:
        with pytest.raises(UsageError, match=r"benchmark\.jsonl, line 2: ") as refusal:
            use(RUN)
        assert says in str(refusal.value)
        assert "\n" not in str(refusal.value)
        assert len(str(refusal.value)) < 500
    assert table(tmp_path).read_bytes() == before


# Loading


def test_load_gives_a_row_per_measurement_with_its_median_interval_and_peak(tmp_path):
    seconds = tuple(1.0 + number / 100 for number in range(11))
    memory = {"resident": 1000.0, "retained": 24.0}
    record(tmp_path, RUN, measurement("a", seconds=seconds, memory=memory), measurement("b", "refused"), outcome())

    found = load(tmp_path, kind="benchmark")

    assert list(found.columns) == [
        *("machine", "run", "started", "commit", "torch"),
        *(field.name for field in fields(Measurement)),
        *("median", "low", "high", "peak"),
    ]
    one, other = found.to_dict("records")
    assert (one["machine"], one["run"], one["started"].year, one["commit"]) == (MACHINE.name, "r1", 2026, "abc")
    assert (one["torch"], one["workload"], one["seconds"]) == ("2.13.0", "a", seconds)
    assert (one["median"], one["low"], one["high"], one["peak"]) == (1.05, 1.0, 1.1, 1024.0)
    assert (other["status"], other["seconds"]) == ("refused", ())
    assert all(math.isnan(other[name]) for name in ("median", "low", "high", "peak", "first_call"))
    assert load(tmp_path)["case"].tolist() == ["small/plain"]


def test_load_of_no_measurements_has_the_columns(tmp_path):
    found = load(tmp_path, "benchmark")

    assert (len(found), found["median"].dtype, found["peak"].dtype) == (0, float, float)


def test_load_of_another_kind_names_both(tmp_path):
    with pytest.raises(UsageError, match="'audit'; there are conformance and benchmark"):
        load(tmp_path, "audit")


def test_measurements_are_loaded_without_torch(tmp_path):
    record(tmp_path, RUN, measurement())
    program = f"""
import sys
sys.modules["torch"] = None
import suite
print(suite.load_results({str(tmp_path)!r}, kind="benchmark")["median"].tolist())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.stdout == "[0.375]\n", done.stderr
