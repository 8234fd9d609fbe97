"""Rows survive: crashes, full disks, garbage, two writers."""

import gc
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from suite.records import EVERY_CASE, Machine, Outcome, Run, UsageError
from suite.store import Results, load, read_outcomes, replace_file

MACHINE = Machine("amd-epyc-2-cores", "AMD EPYC", 2, 2, 8 * 2**30, "Linux", ("NVIDIA H200",))
RUN = Run("r1", "2026-01-02T03:04:05+00:00", MACHINE, {"torch": "2.13.0"}, "abc", {"attention/loops": "1a"}, "suite-1")


def outcome(case="small/plain", status="passed", name="attention/loops", **others):
    return Outcome(
        name, "attention", case, others.pop("dtype", "float32"), others.pop("device", "cpu"), status, **others
    )


def folder(tmp_path):
    return tmp_path / MACHINE.name


def conformance(tmp_path):
    return folder(tmp_path) / "conformance.jsonl"


def record(tmp_path, run, *outcomes, finish=True, **options):
    with Results(tmp_path).open_run(run) as writer:
        for each in outcomes:
            writer.write(each)
        if finish:
            writer.finish(**options)
    return writer


def in_child(tmp_path, program):
    """Run a program that has a writer open on tmp_path; it is killed with SIGKILL when it says that it is ready."""
    head = f"""
import os, sys, time
sys.path[:0] = {[str(Path(__file__).parent)]!r}
from test_results import *
writer = Results({str(tmp_path)!r}).open_run(RUN)
def ready():
    print("ready", flush=True)
    time.sleep(60)
"""
    return subprocess.Popen([sys.executable, "-c", head + program], stdout=subprocess.PIPE, text=True)


def killed(child):
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    child.stdout.close()


# Rows


def test_what_is_written_is_read_back(tmp_path):
    written = [
        outcome("a", error_ratio=0.25, seconds=0.5),
        outcome(
            "b",
            "wrong",
            detail='equals "unscaled": the scores are not divided by √e\n| and more',
            known="a-finding",
            diagnosis=("unscaled",),
        ),
        outcome("c", "wrong", error_ratio=math.inf),
        outcome("d", "raised", detail="lone surrogate \udc80, separator \u2028, NUL \0"),
    ]

    record(tmp_path, RUN, *written)

    recorded = Results(tmp_path).read(MACHINE.name)
    assert recorded.outcomes == written
    assert recorded.run == replace(RUN, finished=recorded.run.finished)
    assert recorded.run.finished


@pytest.mark.parametrize("was", [True, False])
def test_nobody_looks_for_garbage_while_results_are_read(tmp_path, was):
    record(tmp_path, RUN, *(outcome(f"case/{number}") for number in range(4 * gc.get_threshold()[0])))
    looks = []
    gc.collect()
    gc.callbacks.append(lambda phase, _: looks.append(phase))
    try:
        (gc.enable if was else gc.disable)()
        rows = Results(tmp_path).read(MACHINE.name).rows
        assert looks.count("start") <= was, "but once, when it is over"
        assert gc.isenabled() is was
        conformance(tmp_path).write_text("[]\n")
        with pytest.raises(UsageError):
            Results(tmp_path).read(MACHINE.name)
        assert gc.isenabled() is was
    finally:
        gc.callbacks.pop()
        gc.enable()
    assert len(rows) == 4 * gc.get_threshold()[0]


def test_rows_are_lean_and_name_their_run(tmp_path):
    record(tmp_path, RUN, outcome(seconds=0.00123456), finish=False)

    assert json.loads(conformance(tmp_path).read_text()) == {
        "run": "r1",
        "implementation": "attention/loops",
        "contract": "attention",
        "case": "small/plain",
        "dtype": "float32",
        "device": "cpu",
        "status": "passed",
        "seconds": 0.001235,
    }


def test_rows_are_strict_json_and_utf8(tmp_path):
    record(tmp_path, RUN, outcome("a", "wrong", error_ratio=math.nan, detail="\udc80√"), finish=False)

    def refuse(constant):
        raise AssertionError(constant)

    row = json.loads(conformance(tmp_path).read_bytes().decode(), parse_constant=refuse)
    assert row["error_ratio"] == "nan"
    assert math.isnan(Results(tmp_path).read(MACHINE.name).outcomes[0].error_ratio)


def test_a_submission_that_says_megabytes_is_cut(tmp_path):
    record(tmp_path, RUN, outcome(status="raised", detail="x" * 5_000_000))

    assert conformance(tmp_path).stat().st_size < 3000
    assert Results(tmp_path).read(MACHINE.name).outcomes[0].detail.endswith("(5000000 characters)")


# Crashes


def test_kill_in_the_middle_of_a_row_loses_that_row_only(tmp_path):
    child = in_child(
        tmp_path,
        """
for number in range(7):
    writer.write(outcome(f"case/{number}"))
write = os.write
def half(file, data):
    write(file, data[:len(data) // 2])
    ready()
os.write = half
writer.write(outcome("case/7"))
""",
    )
    killed(child)
    assert not conformance(tmp_path).read_bytes().endswith(b"\n")

    assert len(Results(tmp_path).read(MACHINE.name).rows) == 7  # a reader passes over it
    writer = Results(tmp_path).open_run(RUN)

    assert writer.resumed
    assert writer.done == {outcome(f"case/{number}").key for number in range(7)}
    assert writer.recorded == [outcome(f"case/{number}") for number in range(7)]
    assert "was cut off by a crash" in writer.notes[0]
    writer.write(outcome("case/7"))
    writer.finish()
    assert len(Results(tmp_path).read(MACHINE.name).rows) == 8


@pytest.mark.parametrize("delay", [0.0, 0.003, 0.01, 0.03])
def test_kill_at_any_time_leaves_whole_rows(tmp_path, delay):
    child = in_child(
        tmp_path,
        """
print("ready", flush=True)
for number in range(10**9):
    writer.write(outcome(f"case/{number}", "wrong", detail="x" * 1900))
""",
    )
    assert child.stdout.readline() == "ready\n"
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(delay)
    child.kill()
    child.wait()
    child.stdout.close()

    with Results(tmp_path).open_run(RUN) as writer:
        assert writer.resumed
        assert [row.case for row in writer.recorded] == [f"case/{number}" for number in range(len(writer.recorded))]


def test_kill_in_the_middle_of_compaction_leaves_the_old_table(tmp_path):
    child = in_child(
        tmp_path,
        """
writer.write(outcome("case/0"))
os.replace = lambda *paths: ready()
writer.finish()
""",
    )
    killed(child)
    assert list(folder(tmp_path).glob(".*.tmp"))

    with Results(tmp_path).open_run(RUN) as writer:
        assert writer.done == {outcome("case/0").key}
        assert not list(folder(tmp_path).glob(".*.tmp"))


def test_a_whole_last_row_without_its_end_is_kept(tmp_path):
    record(tmp_path, RUN, outcome("a"), outcome("b"), finish=False)
    conformance(tmp_path).write_bytes(conformance(tmp_path).read_bytes().rstrip(b"\n"))

    writer = record(tmp_path, RUN, outcome("c"))

    assert writer.notes == ()
    assert [row.case for row in Results(tmp_path).read(MACHINE.name).outcomes] == ["a", "b", "c"]


def test_a_cut_off_run_row_starts_anew(tmp_path):
    record(tmp_path, RUN, finish=False)
    runs = folder(tmp_path) / "runs.jsonl"
    runs.write_bytes(runs.read_bytes()[:40])

    writer = record(tmp_path, RUN, outcome("a"))

    assert not writer.resumed
    assert "runs.jsonl: the last row was cut off" in writer.notes[0]
    assert list(Results(tmp_path).read(MACHINE.name).runs) == ["r1"]


# Resuming


def test_only_an_unfinished_run_is_resumed(tmp_path):
    record(tmp_path, RUN, outcome("a"), finish=False)
    resumed = record(tmp_path, replace(RUN, id="r2"), outcome("b"))
    fresh = record(tmp_path, replace(RUN, id="r3"), outcome("b"))

    assert (resumed.resumed, resumed.run.id) == (True, "r1")
    assert (fresh.resumed, fresh.run.id, fresh.recorded) == (False, "r3", [])


@pytest.mark.parametrize(
    "change",
    [
        {"suite": "suite-2"},
        {"sources": {"attention/loops": "2b"}},
        {"sources": {"attention/loops": "1a", "attention/matmul": "3c"}},
        {"versions": {"torch": "2.14.0"}},
        {"machine": replace(MACHINE, accelerators=())},
        {"asked": "bench"},
    ],
)
def test_what_is_asked_differently_is_not_resumed(tmp_path, change):
    record(tmp_path, RUN, outcome("a"), finish=False)

    assert not record(tmp_path, replace(RUN, id="r2", **change), finish=False).resumed


def test_what_a_resumed_run_asked_twice_counts_once(tmp_path):
    record(tmp_path, RUN, outcome("a", "declined", detail="first"), finish=False)
    record(tmp_path, RUN, outcome("a", "declined", detail="second"), finish=False)

    assert record(tmp_path, RUN, finish=False).recorded == [outcome("a", "declined", detail="second")]


def test_a_reboot_does_not_hinder_resuming(tmp_path):
    record(tmp_path, RUN, outcome("a"), finish=False)
    rebooted = replace(MACHINE, memory_bytes=MACHINE.memory_bytes - 4096)

    assert record(tmp_path, replace(RUN, id="r2", commit="def", machine=rebooted), finish=False).resumed


def test_a_run_id_that_is_taken_gets_a_number(tmp_path):
    record(tmp_path, RUN, outcome("a"))

    assert record(tmp_path, RUN, outcome("a")).run.id == "r1-2"


# Compaction


def test_a_newer_run_supersedes_the_same_questions_only(tmp_path):
    other = outcome("a", name="attention/matmul")
    record(tmp_path, RUN, outcome("a", "wrong"), outcome("b"), outcome("a", "wrong", device="cuda"), other)
    record(tmp_path, replace(RUN, id="r2"), outcome("a"))

    recorded = Results(tmp_path).read(MACHINE.name)

    assert recorded.rows == (
        ("r2", outcome("a")),
        ("r1", outcome("a", "wrong", device="cuda")),
        ("r1", outcome("b")),
        ("r1", other),
    )
    assert len(conformance(tmp_path).read_text().splitlines()) == 4
    assert {name: run.id for name, run in recorded.earlier.items()} == {
        "attention/loops": "r1",
        "attention/matmul": "r1",
    }


def test_an_implementation_asked_whole_loses_the_cases_that_are_no_more(tmp_path):
    other = outcome("gone", name="attention/matmul")
    record(tmp_path, RUN, outcome("gone"), outcome("gone", device="cuda"), other)
    record(tmp_path, replace(RUN, id="r2"), outcome("a"), whole=["attention/loops"])

    assert Results(tmp_path).read(MACHINE.name).outcomes == [outcome("a"), outcome("gone", device="cuda"), other]


def test_runs_without_rows_go(tmp_path):
    for name in ("r1", "r2", "r3"):
        record(tmp_path, replace(RUN, id=name, suite=name), outcome("b" if name == "r1" else "a"))

    assert list(Results(tmp_path).read(MACHINE.name).runs) == ["r1", "r3"]


def test_a_resumed_run_is_newer_than_one_that_came_between(tmp_path):
    record(tmp_path, RUN, outcome("a"), finish=False)
    record(tmp_path, replace(RUN, id="r2", suite="suite-2"), outcome("a", "wrong"), finish=False)
    record(tmp_path, RUN, outcome("b"), finish=False)

    assert Results(tmp_path).read(MACHINE.name).rows == (("r1", outcome("a")), ("r1", outcome("b")))


def test_a_missing_library_outdates_older_answers_and_the_reverse(tmp_path):
    missing = outcome(EVERY_CASE, "missing", detail="No module named 'jax'")
    record(tmp_path, RUN, outcome("a"), outcome("b"))
    record(tmp_path, replace(RUN, id="r2"), missing)
    assert Results(tmp_path).read(MACHINE.name).outcomes == [missing]

    record(tmp_path, replace(RUN, id="r3"), outcome("a"))
    assert Results(tmp_path).read(MACHINE.name).outcomes == [outcome("a")]


def test_what_else_writes_to_a_table_is_noticed_and_nothing_is_replaced(tmp_path):
    writer = Results(tmp_path).open_run(RUN)
    writer.write(outcome())
    table = writer.folder / "conformance.jsonl"
    forged = table.read_text().replace('"passed"', '"raised"')
    table.write_text(forged)

    with pytest.raises(UsageError, match="was changed by something else while this run wrote to it"):
        writer.finish()

    writer.close()
    assert table.read_text() == forged
    assert not Results(tmp_path).read(MACHINE.name).runs[writer.run.id].finished


def test_a_closed_run_takes_no_rows(tmp_path):
    writer = record(tmp_path, RUN)

    with pytest.raises(ValueError, match="closed"):
        writer.write(outcome())


# What cannot be read


def row(**changes):
    """A row of the run r1, but for the changes."""
    names = ("implementation", "contract", "case", "dtype", "device")
    return json.dumps({"run": "r1", **dict.fromkeys(names, "x"), "status": "passed", **changes}).encode()


@pytest.mark.parametrize(
    ("version", "remedy"), [(2, "update yours"), (0, "run anew"), (None, "run anew"), ("x", "run anew")]
)
def test_another_format_is_refused_with_its_place(tmp_path, version, remedy):
    record(tmp_path, RUN, outcome())
    runs = folder(tmp_path) / "runs.jsonl"
    runs.write_text(runs.read_text() + json.dumps({"format": version, "shape": "unknown"}) + "\n")
    before = runs.read_bytes(), conformance(tmp_path).read_bytes()

    for use in (Results(tmp_path).open_run, lambda _: read_outcomes(tmp_path), lambda _: load(tmp_path)):
        with pytest.raises(UsageError, match=rf"runs\.jsonl, line 2: the format is {version!r} .*{remedy}") as refusal:
            use(RUN)
        assert "\n" not in str(refusal.value)
    assert before == (runs.read_bytes(), conformance(tmp_path).read_bytes())


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
def test_garbage_in_the_middle_is_refused_with_its_place(tmp_path, garbage):
    record(tmp_path, RUN, outcome("a"), outcome("b"))
    first, second = conformance(tmp_path).read_bytes().splitlines(keepends=True)
    conformance(tmp_path).write_bytes(first + garbage + b"\n" + second)
    before = conformance(tmp_path).read_bytes()

    for use in (Results(tmp_path).open_run, lambda _: read_outcomes(tmp_path)):
        with pytest.raises(UsageError, match=r"conformance\.jsonl, line 2: ") as refusal:
            use(RUN)
        assert "\n" not in str(refusal.value)
    assert conformance(tmp_path).read_bytes() == before


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
    ],
)
def test_a_run_that_is_none_is_refused_with_its_place(tmp_path, change):
    record(tmp_path, RUN)
    runs = folder(tmp_path) / "runs.jsonl"
    runs.write_text(json.dumps(json.loads(runs.read_text()) | change) + "\n")

    with pytest.raises(UsageError, match=r"runs\.jsonl, line 1: "):
        Results(tmp_path).read(MACHINE.name)


def test_garbage_among_the_measurements_is_refused_before_a_run_starts(tmp_path):
    folder(tmp_path).mkdir()
    (folder(tmp_path) / "benchmark.jsonl").write_text("garbage\n")

    with pytest.raises(UsageError, match=r"benchmark\.jsonl, line 1"):
        Results(tmp_path).open_run(RUN)


def test_a_refused_writer_holds_no_lock(tmp_path):
    folder(tmp_path).mkdir()
    (folder(tmp_path) / "runs.jsonl").write_text("garbage\n")
    for _ in range(2):
        with pytest.raises(UsageError, match=r"line 1"):
            Results(tmp_path).open_run(RUN)


# What cannot be written


def test_a_file_in_place_of_the_folder_is_refused_in_one_line(tmp_path):
    (tmp_path / "results").write_text("a file")
    (tmp_path / MACHINE.name).write_text("another")

    for path in (tmp_path / "results", tmp_path):
        with pytest.raises(UsageError, match=r"cannot be written: (Not a directory|File exists)"):
            Results(path).open_run(RUN)


def test_a_folder_in_place_of_a_table_is_refused_in_one_line(tmp_path):
    conformance(tmp_path).mkdir(parents=True)

    with pytest.raises(UsageError, match=r"cannot be .*: Is a directory"):
        Results(tmp_path).open_run(RUN)


@pytest.fixture
def read_only():
    """A folder that this process may read but not write, even if it was started by root."""
    with tempfile.TemporaryDirectory() as path:
        Path(path).chmod(0o555)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        yield path
        os.seteuid(user)


def test_a_read_only_folder_is_refused_in_one_line(read_only):
    with pytest.raises(UsageError, match="cannot be written: Permission denied"):
        Results(read_only).open_run(RUN)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
def test_a_full_disk_leaves_the_earlier_rows(tmp_path):
    writer = Results(tmp_path).open_run(RUN)
    writer.write(outcome("a"))
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, writer._files["conformance.jsonl"])
    os.close(full)

    with pytest.raises(UsageError, match=r"conformance\.jsonl cannot be written: No space left on device"):
        writer.write(outcome("b"))
    writer.close()

    assert writer.done == {outcome("a").key}
    assert Results(tmp_path).read(MACHINE.name).outcomes == [outcome("a")]


def test_a_disk_that_takes_half_a_row_keeps_none_of_it(tmp_path):
    child = in_child(
        tmp_path,
        """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
try:
    for number in range(100):
        writer.write(outcome(f"case/{number}"))
except UsageError as error:
    print(number, error)
""",
    )
    said, _ = child.communicate()
    assert "conformance.jsonl cannot be written: File too large" in said
    assert conformance(tmp_path).read_bytes().endswith(b"}\n")
    with Results(tmp_path).open_run(RUN) as writer:
        assert len(writer.recorded) == int(said.split()[0])
        assert writer.notes == ()


def test_a_full_disk_during_compaction_leaves_the_tables(tmp_path, monkeypatch):
    writer = Results(tmp_path).open_run(RUN)
    writer.write(outcome("a"))
    before = conformance(tmp_path).read_bytes()

    def full(file):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(UsageError, match="No space left on device"):
            writer.finish()
    assert sorted(file.name for file in folder(tmp_path).iterdir()) == ["conformance.jsonl", "runs.jsonl"]
    assert conformance(tmp_path).read_bytes() == before
    assert writer.finish().finished  # there is room again


def test_replacing_a_file_keeps_the_usual_permissions(tmp_path):
    (tmp_path / "plain").write_text("")
    replace_file(tmp_path / "table", "text")

    assert (tmp_path / "table").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("name", ["", "..", "a/b", "/etc", ".hidden"])
def test_a_machine_cannot_be_a_path(tmp_path, name):
    with pytest.raises(UsageError, match="cannot be"):
        Results(tmp_path).open_run(replace(RUN, machine=replace(MACHINE, name=name)))


# Two writers


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path):
    child = in_child(tmp_path, "ready()")
    assert child.stdout.readline() == "ready\n"

    with pytest.raises(UsageError, match=r"another attnsuite is writing to .*: wait until it ends, or stop it"):
        Results(tmp_path).open_run(RUN)
    assert Results(tmp_path).read(MACHINE.name).outcomes == []  # reading is free

    child.kill()
    child.wait()
    child.stdout.close()
    Results(tmp_path).open_run(RUN).close()


def test_a_finished_run_lets_the_next_one_in(tmp_path):
    Results(tmp_path).open_run(RUN).finish()
    Results(tmp_path).open_run(RUN).close()
    Results(tmp_path).open_run(RUN).close()


def test_locking_leaves_no_file(tmp_path):
    record(tmp_path, RUN, outcome())

    assert sorted(file.name for file in folder(tmp_path).iterdir()) == ["conformance.jsonl", "runs.jsonl"]


def test_a_file_system_without_locks_is_a_note(tmp_path, monkeypatch):
    import fcntl

    def unable(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", unable)

    assert "cannot be locked (Operation not supported)" in record(tmp_path, RUN, outcome()).notes[0]


# Loading


def test_load_gives_a_table_with_the_run_of_each_row(tmp_path):
    elsewhere = replace(RUN, machine=replace(MACHINE, name="apple-m2-8-cores"), versions={})
    record(tmp_path, RUN, outcome("a", error_ratio=0.5), outcome("b", "declined", detail="no masks"))
    record(tmp_path, elsewhere, outcome("a"))

    table = load(tmp_path)

    assert list(table.columns[:5]) == ["machine", "run", "started", "commit", "torch"]
    assert table["machine"].tolist() == ["amd-epyc-2-cores"] * 2 + ["apple-m2-8-cores"]
    assert table["torch"].tolist() == ["2.13.0", "2.13.0", ""]
    assert table["started"].dt.year.tolist() == [2026] * 3
    assert table["error_ratio"].dropna().tolist() == [0.5]
    assert table["status"].tolist() == ["passed", "declined", "passed"]


def test_load_of_an_empty_folder_has_the_columns(tmp_path):
    assert "status" in load(tmp_path).columns
    assert len(load(tmp_path)) == 0
    assert read_outcomes(tmp_path) == {}


def test_load_without_a_folder_says_what_writes_it(tmp_path):
    with pytest.raises(UsageError, match="attnsuite run"):
        load(tmp_path / "nowhere")
