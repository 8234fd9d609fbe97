"""`attnsuite compare`: from the command line, over real files of results, and interleaved over real processes."""

import pytest
from builders import RUN, outcome
from commanded import KERNEL
from msgspec.structs import replace
from processes import committed
from stored import MACHINE, record

from attnsuite.benchmark import interleaved, table

FIRST = replace(RUN, machine=MACHINE, finished="")
SECOND = replace(FIRST, id="r2", started="2026-01-03T03:04:05+00:00")


def test_a_commit_is_compared_with_what_is_there(tmp_path, status_of, capsys):
    record(tmp_path / "results", FIRST, outcome("a/1"))
    committed(tmp_path)
    record(tmp_path / "results", SECOND, outcome("a/1", "failed"))

    assert status_of("compare", "results@HEAD", "results", "--fail-on", "failed") == 1
    assert "fails: attention/loops a/1 (float32, cpu) passed → failed" in capsys.readouterr().out


@pytest.mark.slow
def test_two_files_are_timed_against_each_other_with_a_baseline(write, status_of, capsys, monkeypatch):
    baselines, real = [], table.race
    monkeypatch.setattr(table, "race", lambda *given: (baselines.append(given[5].name), real(*given))[1])
    write("old.py", KERNEL)
    monkeypatch.setattr(interleaved, "MEMORY_PAIRS", 1)  # memory is not compared here
    write("new.py", KERNEL.replace("return ", "return None if not [scores.softmax(-1) for _ in range(60)] else "))
    small = ("--workload", "documents/one-sentence", "--budget", "0.001", "--pairs", "8")

    status = status_of("compare", "--interleaved", "old.py", "new.py", *small, "--fail-on", "slower")

    printed = capsys.readouterr().out
    assert status == 1, printed
    assert "fails: slower: attention/new for old documents/one-sentence" in printed
    assert baselines == ["attention/matmul (not shown)"] * 8


@pytest.mark.slow
def test_a_side_that_became_wrong_is_reported_first_and_not_timed(write, status_of, capsys):
    write("old.py", KERNEL)
    write("new.py", KERNEL.replace("query.shape[-1] ** -0.5 if", "1.0 if"))
    small = ("--workload", "documents/one-sentence", "--budget", "0.001", "--pairs", "8")

    assert status_of("compare", "--interleaved", "old.py", "new.py", *small, "--fail-on", "failed") == 1

    printed = capsys.readouterr().out
    notes = ("note: in ", "note: 8 tables may be inaccurate because the machine was busy")
    assert "fail now" in [line for line in printed.splitlines() if not line.startswith(notes)][3]
    options = "attention/new for old documents/one-sentence float32 cpu 1 thread forward hot"
    assert f"fails: {options} measured → refused" in printed
