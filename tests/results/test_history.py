"""History: a line per implementation, workload, machine and run; steps in it, statuses and failures that changed."""

import csv
import shutil

import pytest
from builders import MACHINE, measured, outcome, without_time
from builders import run as run_of
from msgspec.structs import replace
from stored import record

from attnsuite.model import ContractFacts, Facts, UsageError
from attnsuite.results.history import FILE, history_of, read_lines, update

FACTS = Facts({"attention": ContractFacts(baseline="matmul")})


def day(results, number, *rows, torch="2.13.0", **others):
    """A run of one day of January."""
    run = run_of(f"r{number:02}", f"2026-01-{number:02}", FACTS, finished="", **others)
    record(results, replace(run, versions={"torch": torch}), *rows)


def timed(seconds, base=0.1, **others):
    return measured("chunked", seconds=seconds, **others), measured("matmul", seconds=base, **others)


@pytest.fixture
def results(tmp_path):
    """Six runs; from the fourth on one implementation takes half as long again."""
    for number in range(1, 7):
        day(tmp_path, number, *timed(0.2 if number < 4 else 0.3))
    return tmp_path


def test_a_line_has_the_median_the_ratio_and_their_intervals(tmp_path):
    day(tmp_path, 1, *timed(0.2), outcome("a"), outcome("b", "failed"), outcome("c", "failed", known="F-1"))

    assert update(tmp_path) == 1

    rows = list(csv.DictReader((tmp_path / FILE).read_text().splitlines()))
    (chunked,) = [row for row in rows if row["implementation"] == "attention/chunked"]
    assert (chunked["machine"], chunked["run"], chunked["torch"]) == (MACHINE.name, "r01", "2.13.0")
    assert (float(chunked["median"]), float(chunked["ratio"]), chunked["rounds"]) == (0.2, 2.0, "24")
    assert float(chunked["low"]) < 0.2 < float(chunked["high"])
    (loops,) = [row for row in rows if not row["workload"]]
    assert (loops["tests"], loops["failed"], loops["known"]) == ("3", "2", "1")


def test_lines_outlive_the_folders_of_their_runs(results):
    before = {(line.run, line.implementation) for line in read_lines(results)}
    update(results)
    shutil.rmtree(results / MACHINE.name / "r01")

    assert {(line.run, line.implementation) for line in read_lines(results)} == before
    assert update(results) == 0
    assert len(history_of(results).runs) == 6


def test_runs_outside_of_a_repository_have_no_commit(tmp_path):
    run = run_of("r01", "2026-01-01", FACTS, finished="")
    record(tmp_path, replace(run, commit="", versions={}), *timed(0.2))
    update(tmp_path)

    assert {(line.commit, line.torch) for line in read_lines(tmp_path)} == {("", "")}


def test_runs_of_another_folder_are_added_once(results, tmp_path):
    day(tmp_path / "other", 9, *timed(0.2))

    assert update(results, tmp_path / "other") == 1
    assert update(results, tmp_path / "other") == 0
    assert [run.id for run in history_of(results).runs][-1] == "r09"


def test_a_change_of_torch_or_of_a_source_stands_with_the_step(tmp_path):
    for number in range(1, 7):
        new = number > 3
        sources = {"attention/chunked": "ab"[new], "attention/matmul": "c"}
        day(tmp_path, number, *timed(0.3 if new else 0.2), torch=f"2.{13 + new}.0", sources=sources)

    history = history_of(tmp_path)
    (ratio,) = [item for item in history.series if item.quantity == "ratio"]
    assert ratio.changes[0].marks == ("torch 2.13.0 → 2.14.0", "its source changed")
    assert [run.marks for run in history.runs][3] == ("torch 2.13.0 → 2.14.0",)


def test_statuses_and_failures_that_change_are_events(tmp_path):
    day(tmp_path, 1, *timed(0.2), outcome("a"), outcome("b"))
    day(tmp_path, 2, without_time("chunked", "refused"), measured("matmul"), outcome("a", "failed"), outcome("b"))

    events = [(item.run, item.implementation, item.before, item.now) for item in history_of(tmp_path).events]
    assert ("r02", "attention/chunked", "measured", "refused") in events
    assert ("r02", "attention/loops", "0 of 2 tests failed", "1 of 2 tests failed") in events
    assert len(events) == 2


def test_a_damaged_line_is_named(results):
    update(results)
    path = results / FILE
    path.write_text(path.read_text().replace("measured,24", "measured,many", 1))

    with pytest.raises(UsageError, match=r"history.csv, line 2: .*rounds"):
        history_of(results)
