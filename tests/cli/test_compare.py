"""`attnsuite compare`: from the command line, over real files of results, and interleaved over real processes."""

import pytest
from builders import BASELINES, RUN, measured, outcome
from commanded import KERNEL, rows
from msgspec.structs import replace
from processes import committed
from stored import MACHINE, record

from attnsuite.benchmark import interleaved, table
from attnsuite.model import Facts

SOURCES = {"attention/matmul": "1a", "attention/chunked": "2b"}
FIRST = replace(RUN, id="20260102T030405", machine=MACHINE, sources=SOURCES, finished="", facts=Facts(BASELINES))
SECOND = replace(FIRST, id="20260103T030405", started="2026-01-03T03:04:05+00:00", versions={"torch": "2.14.0"})


def recorded(results, *of):
    record(results, *of)
    return results


def timed(chunked):
    return measured("matmul", seconds=0.05), measured("chunked", seconds=chunked)


@pytest.fixture
def old(tmp_path):
    return recorded(tmp_path / "old", FIRST, outcome("plain/small"), outcome("mask/float"), *timed(0.1))


@pytest.fixture
def new(tmp_path):
    later = replace(FIRST, id=SECOND.id)
    rows = outcome("plain/small"), outcome("mask/float", "failed", detail="off by 1"), *timed(0.13)
    return recorded(tmp_path / "new", later, *rows)


def test_a_commit_is_compared_with_what_is_there(tmp_path, status_of, capsys):
    results = recorded(tmp_path / "results", FIRST, outcome("a/1"))
    committed(tmp_path)
    recorded(results, SECOND, outcome("a/1", "failed"))

    assert status_of("compare", "results@HEAD", "results", "--fail-on", "failed") == 1
    assert "fails: attention/loops a/1 (float32, cpu) passed → failed" in capsys.readouterr().out


def test_rows_of_changes_and_ratios_are_written_as_json(old, new, status_of, tmp_path):
    assert status_of("compare", str(old), str(new), "--json", "rows.jsonl") == 0
    assert status_of("compare", str(old), str(new), "--json", "rows.jsonl") == 0  # it is known as our own

    changes = rows((tmp_path / "rows.jsonl").read_text())

    assert [row["what"] for row in changes] == ["status", "time", "time", "memory", "memory"]
    assert (changes[0]["old"], changes[0]["new"], changes[0]["worse"]) == ("passed", "failed", True)
    assert {row["implementation"]: row["verdict"] for row in changes[1:3]}["attention/chunked"] == "inconclusive"


# Interleaved


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
