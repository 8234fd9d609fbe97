"""Rows survive crashes: of a run that is killed, all but the last; of one that is finished, all or none."""

import subprocess

import pytest
from stored import MACHINE, RUN, folder, in_child, journal, killed_when_ready, measurement, names, outcome, read, record

from attnsuite.results.store import Results

HALF = """
write = os.write
def half(file, data):
    write(file, data[:len(data) // 2])
    ready()
os.write = half
"""


def test_a_kill_in_the_middle_of_a_row_loses_that_row_only(tmp_path):
    killed_when_ready(
        tmp_path,
        """
writer = Results(results).open_run(RUN)
for number in range(7):
    writer.write(outcome(f"case/{number}"))
    writer.write(measurement(f"ladder/{number}"))
"""
        + HALF
        + """
writer.write(outcome("case/7"))
""",
    )
    assert not journal(tmp_path).read_bytes().endswith(b"\n")
    assert len(read(tmp_path).rows) == 7  # a reader passes over it
    with Results(tmp_path).open_run(RUN) as writer:
        assert writer.resumed
        assert writer.done == {outcome(f"case/{number}").key for number in range(7)}
        assert writer.recorded == [outcome(f"case/{number}") for number in range(7)]
        assert writer.recorded_measurements == [measurement(f"ladder/{number}") for number in range(7)]
        assert writer.measured == {each.key for each in writer.recorded_measurements}
        assert "journal.jsonl: the last row was cut off by a crash" in writer.notes[0]
        writer.write(outcome("case/7"))
        writer.finish()
    assert len(read(tmp_path).rows) == 8
    assert len(read(tmp_path).measured) == 7


@pytest.mark.parametrize("delay", [0.0, 0.003, 0.01, 0.03])
def test_a_kill_at_any_time_leaves_whole_rows(tmp_path, delay):
    child = in_child(
        tmp_path,
        """
writer = Results(results).open_run(RUN)
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


def test_a_kill_before_all_new_files_are_there_leaves_the_old_ones(tmp_path):
    record(tmp_path, RUN, outcome("case/0", "wrong"), measurement())
    before = {name: (folder(tmp_path) / name).read_bytes() for name in names(tmp_path) if name != "runs.jsonl"}
    killed_when_ready(
        tmp_path,
        """
writer = Results(results).open_run(SECOND)
writer.write(outcome("case/0"))
os.rename = ready
writer.finish()
""",
    )
    assert (folder(tmp_path) / ".begun").is_dir()

    assert read(tmp_path).rows == (("r2", outcome("case/0")),)
    assert not read(tmp_path).run.finished
    assert {name: (folder(tmp_path) / name).read_bytes() for name in before} == before
    assert record(tmp_path, RUN, outcome("case/1")).notes == ()
    assert ".begun" not in names(tmp_path)


@pytest.mark.parametrize("moved", range(6))
def test_a_kill_when_all_new_files_are_there_leaves_them(tmp_path, moved):
    record(tmp_path, RUN, outcome("case/0", "wrong"), measurement())
    killed_when_ready(
        tmp_path,
        f"""
writer = Results(results).open_run(SECOND)
writer.write(outcome("case/0"))
replace, left = os.replace, [1 + {moved}]  # the first file is that of history
def replace_some(*paths):
    ready() if not left[0] else replace(*paths)
    left[0] -= 1
os.replace = replace_some
writer.finish()
""",
    )
    assert (folder(tmp_path) / ".complete").is_dir()

    for settled in (False, True):
        recorded = read(tmp_path)
        assert recorded.rows == (("r2", outcome("case/0")),)
        assert recorded.measured == (("r1", measurement()),)
        assert recorded.runs["r2"].finished
        assert (".complete" in names(tmp_path)) is not settled
        Results(tmp_path).open_run(RUN).close()


def test_a_reader_of_a_run_that_is_finished_meanwhile_sees_one_or_the_other(tmp_path):
    record(tmp_path, RUN, *(outcome(f"case/{number}", "wrong") for number in range(50)))
    child = in_child(
        tmp_path,
        """
for number in range(2, 40):
    record(results, replace(RUN, id=f"r{number}", suite=f"s{number}"), *(outcome(f"case/{n}") for n in range(50)))
""",
    )

    while child.poll() is None:
        assert len(Results(tmp_path).read(MACHINE.name).rows) == 50

    child.stdout.close()
    assert child.returncode == 0


def test_a_whole_last_row_without_its_end_is_kept(tmp_path):
    record(tmp_path, RUN, outcome("a"), measurement("b"), finish=False)
    journal(tmp_path).write_bytes(journal(tmp_path).read_bytes().rstrip(b"\n"))

    writer = record(tmp_path, RUN, outcome("c"))

    assert writer.notes == ()
    assert [row.case for row in read(tmp_path).outcomes] == ["a", "c"]
    assert read(tmp_path).measurements == [measurement("b")]


def test_a_cut_off_run_row_starts_anew(tmp_path):
    record(tmp_path, RUN, finish=False)
    runs = folder(tmp_path) / "runs.jsonl"
    runs.write_bytes(runs.read_bytes()[:40])

    writer = record(tmp_path, RUN, outcome("a"))

    assert not writer.resumed
    assert "runs.jsonl: the last row was cut off" in writer.notes[0]
    assert list(read(tmp_path).runs) == ["r1"]
