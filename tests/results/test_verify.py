"""Verification reports altered files of a run, and values that no run can have."""

import gzip

import pytest
from msgspec.structs import replace
from stored import RUN, folder, measurement, outcome, record, run_folder

from attnsuite.results import verify


@pytest.fixture
def results(tmp_path):
    record(tmp_path, RUN, outcome("a"), outcome("b", "failed", detail="off"), measurement())
    return tmp_path


def said(results):
    return [str(refusal) for refusal in verify(folder(results))]


def test_a_run_as_it_was_written_is_verified(results):
    assert said(results) == []


@pytest.mark.parametrize("name", ["outcomes.jsonl.gz", "measurements.jsonl.gz", "facts.json.gz"])
def test_every_byte_counts(results, name):
    file = run_folder(results) / name
    data = file.read_bytes()
    for place in (0, 4, len(data) // 2, len(data) - 1):
        file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert any(f"{name}: the file was altered" in line for line in said(results)) or name == "facts.json.gz"
        assert said(results)


def test_a_missing_file_and_an_unknown_one_are_named(results):
    (run_folder(results) / "outcomes.jsonl.gz").rename(run_folder(results) / "mine.txt")

    first, second = said(results)
    assert first.endswith("mine.txt: run.json names no such file; move it away")
    assert second.endswith("outcomes.jsonl.gz: the file is missing")


def test_a_run_that_is_not_finished_says_what_finishes_it(tmp_path):
    record(tmp_path, replace(RUN, request="check on cpu"), outcome("a"), finish=False)

    (line,) = said(tmp_path)
    assert "not finished" in line
    assert "check on cpu" in line


def test_damaged_lines_are_listed_and_counted(results):
    file = run_folder(results) / "outcomes.jsonl.gz"
    line = gzip.decompress(file.read_bytes()).splitlines()[0]
    file.write_bytes(gzip.compress(b"\n".join([line, *[b"{}"] * 30]) + b"\n"))

    lines = said(results)
    assert "outcomes.jsonl.gz, line 2: Object missing required field" in lines[1]
    assert lines[-1].endswith("10 more lines are damaged")
    assert len(lines) == 1 + 20 + 1


def test_a_damaged_header_is_named(results):
    (run_folder(results) / "run.json").write_text('{"format": 4, "id": 1}\n')

    (line,) = said(results)
    assert "run.json, field id: Expected `str`, got `int`" in line
