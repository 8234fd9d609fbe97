"""`attnsuite compare`: from the command line, over real files of results, and interleaved over real processes."""

import json
import subprocess

import pytest
from builders import BASELINES, RUN, measured, outcome
from msgspec.structs import replace
from stored import MACHINE

from attnsuite.benchmark import interleaved, table
from attnsuite.model import Facts
from attnsuite.results import open_run

SOURCES = {"attention/matmul": "1a", "attention/chunked": "2b"}
FIRST = replace(RUN, id="20260102T030405", machine=MACHINE, sources=SOURCES, finished="", facts=Facts(BASELINES))
SECOND = replace(FIRST, id="20260103T030405", started="2026-01-03T03:04:05+00:00", versions={"torch": "2.14.0"})


def stored(results, run, *rows):
    with open_run(results, run) as writer:
        for row in rows:
            writer.write(row)
        writer.finish()
    return results


def timed(chunked):
    return measured("matmul", seconds=0.05), measured("chunked", seconds=chunked)


@pytest.fixture
def old(tmp_path):
    return stored(tmp_path / "old", FIRST, outcome("plain/small"), outcome("mask/float"), *timed(0.1))


@pytest.fixture
def new(tmp_path):
    later = replace(FIRST, id=SECOND.id)
    rows = outcome("plain/small"), outcome("mask/float", "failed", detail="off by 1"), *timed(0.13)
    return stored(tmp_path / "new", later, *rows)


def test_a_commit_is_compared_with_what_is_there(tmp_path, status_of, capsys):
    results = stored(tmp_path / "results", FIRST, outcome("a/1"))
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e@e"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], check=True)
    stored(results, SECOND, outcome("a/1", "failed"))

    assert status_of("compare", "results@HEAD", "results", "--fail-on", "failed") == 1
    assert "fails: attention/loops a/1 (float32, cpu) passed → failed" in capsys.readouterr().out


def test_rows_of_changes_and_ratios_are_written_as_json(old, new, status_of, tmp_path):
    assert status_of("compare", str(old), str(new), "--json", "rows.jsonl") == 0
    assert status_of("compare", str(old), str(new), "--json", "rows.jsonl") == 0  # it is known as our own

    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]

    assert [row["what"] for row in rows] == ["status", "time", "time", "memory", "memory"]
    assert (rows[0]["old"], rows[0]["new"], rows[0]["worse"]) == ("passed", "failed", True)
    assert {row["implementation"]: row["verdict"] for row in rows[1:3]}["attention/chunked"] == "inconclusive"


# Interleaved

PLAIN = """
def attention(query, key, value, *, is_causal=False, scale=None):
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query @ key.mT * scale
    if is_causal:
        hidden = scores.new_ones(scores.shape[-2:]).tril() == 0
        scores = scores.masked_fill(hidden, float("-inf"))
    return {}scores.softmax(-1) @ value
"""


@pytest.mark.slow
def test_two_files_are_timed_against_each_other_with_a_baseline(write, status_of, capsys, monkeypatch):
    baselines, real = [], table.race
    monkeypatch.setattr(table, "race", lambda *given: (baselines.append(given[5].name), real(*given))[1])
    write("old.py", PLAIN.format(""))
    monkeypatch.setattr(interleaved, "MEMORY_PAIRS", 1)  # memory is not compared here
    write("new.py", PLAIN.format("None if not [scores.softmax(-1) for _ in range(60)] else "))
    small = ("--workload", "documents/one-sentence", "--budget", "0.001", "--pairs", "8")

    status = status_of("compare", "--interleaved", "old.py", "new.py", *small, "--fail-on", "slower")

    printed = capsys.readouterr().out
    assert status == 1, printed
    assert "fails: slower: attention/new for old documents/one-sentence" in printed
    assert baselines == ["attention/matmul (not shown)"] * 8


@pytest.mark.slow
def test_a_side_that_became_wrong_is_reported_first_and_not_timed(write, status_of, capsys):
    write("old.py", PLAIN.format(""))
    write("new.py", PLAIN.format("").replace("query.shape[-1] ** -0.5 if", "1.0 if"))
    small = ("--workload", "documents/one-sentence", "--budget", "0.001", "--pairs", "8")

    assert status_of("compare", "--interleaved", "old.py", "new.py", *small, "--fail-on", "failed") == 1

    printed = capsys.readouterr().out
    assert "fail now" in [line for line in printed.splitlines() if not line.startswith("note: in ")][3]
    options = "attention/new for old documents/one-sentence float32 cpu 1 thread forward hot"
    assert f"fails: {options} measured → refused" in printed


@pytest.mark.parametrize("word", ["slower", "inconclusive"])
def test_a_comparison_of_stored_runs_cannot_fail_on_their_times(old, new, status_of, capsys, word):
    assert status_of("compare", str(old), str(new), "--fail-on", "failed", "--fail-on", word) == 2

    says = f"--fail-on {word} needs --interleaved: times of stored runs have no verdict"
    assert capsys.readouterr().err.endswith(f"{says}\n")
