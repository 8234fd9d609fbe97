"""Runs that are kept become series with steps, marks beside them, and questions that are answered otherwise."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from builders import MACHINE, RUN, measured, outcome, samples, without_time
from msgspec.structs import replace

from attnsuite.model import History, Measurement, Outcome, Run, Series, UsageError
from attnsuite.results.history import history_of
from attnsuite.results.store import history as store

MIB = 2.0**20


def run(day: int, **others: object) -> Run:
    """A run of a day of January, of a commit of its own."""
    date = f"2026-01-{day:02}"
    of_day = {"started": f"{date}T03:00:00+00:00", "finished": f"{date}T04:00:00+00:00", "commit": f"c{day:02}"}
    return replace(RUN, id=f"r{day:02}", **{**of_day, **others})


def keep(results: Path, of: Run, *records: Outcome | Measurement) -> None:
    store.keep(results, of, records)


def pair(loops: float, matmul: float = 0.2, peak: float = 8 * MIB) -> tuple[Measurement, Measurement]:
    """Times of two implementations in the same rounds, with a spread that both share."""
    memory = {"resident": peak}
    return measured("matmul", seconds=matmul, memory=memory), measured("loops", seconds=loops, memory=memory)


def series(of: History, implementation: str = "attention/loops", quantity: str = "ratio") -> Series:
    (found,) = [each for each in of.series if (each.implementation, each.quantity) == (implementation, quantity)]
    return found


def test_a_slow_down_is_found_with_the_run_that_has_it_and_what_changed_beside_it(tmp_path):
    for day in range(1, 11):
        new = {"versions": {"python": "3.12.1", "torch": "2.14.0"}, "sources": {"attention/loops": "2"}}
        keep(tmp_path, run(day, **(new if day >= 7 else {})), *pair(0.1 if day < 7 else 0.13))

    found = history_of(tmp_path)
    of = series(found)
    (change,) = of.changes

    assert (change.after, change.run, change.verdict) == ("r06", "r07", "slower")
    assert change.low < 1.3 < change.high
    assert change.marks == ("torch 2.13.0 → 2.14.0", "its source changed")
    assert of.breaks == ("r07",)
    assert [each.run for each in of.points] == [f"r{day:02}" for day in range(1, 11)]
    assert (of.points[0].value, of.baseline, of.table) == (
        0.5,
        "attention/matmul",
        "vit/b16 float32 cpu 1 thread forward hot",
    )
    assert {each.id: each.marks for each in found.runs if each.marks} == {"r07": ("torch 2.13.0 → 2.14.0",)}


def test_a_slow_machine_is_no_change_of_ratios_and_one_of_the_baseline_s_time(tmp_path):
    for day in range(1, 11):
        factor = 1 if day < 5 else 1.5
        keep(tmp_path, run(day), *pair(0.1 * factor, 0.2 * factor))

    found = history_of(tmp_path)

    assert series(found).changes == ()
    (change,) = series(found, "attention/matmul", "time").changes
    assert (change.run, change.verdict) == ("r05", "slower")


@pytest.mark.parametrize(("slower", "is_suspected"), [("matmul", True), ("loops", False)])
def test_where_all_step_alike_beside_the_baseline_it_is_suspected(tmp_path, slower, is_suspected):
    names = "matmul", "loops", "einsum", "chunked", "flex"
    for day in range(1, 11):
        factor = {slower: 2.0} if day > 5 else {}
        keep(tmp_path, run(day), *(measured(name, seconds=0.1 * factor.get(name, 1)) for name in names))

    changes = [change for each in history_of(tmp_path).series if each.quantity == "ratio" for change in each.changes]

    suspicion = "4 of 4 alike: attention/matmul may be what changed"
    assert [change.marks for change in changes] == ([(suspicion,)] * 4 if is_suspected else [()])


def test_memory_has_series_of_its_own_from_a_mebibyte_on(tmp_path):
    for day in range(1, 9):
        keep(
            tmp_path,
            run(day),
            *pair(0.1, peak=8 * MIB if day < 5 else 6 * MIB),
            measured("tiny", memory={"resident": 4096.0}),
        )

    found = history_of(tmp_path)

    (change,) = series(found, quantity="memory").changes
    assert (change.run, change.verdict, change.ratio) == ("r05", "less", pytest.approx(0.75, 1e-4))
    assert [each.quantity for each in found.series if each.implementation == "attention/tiny"] == ["ratio"]


def test_machines_have_series_of_their_own(tmp_path):
    other = replace(MACHINE, name="another")
    for day in range(1, 9):
        keep(tmp_path, run(day, machine=MACHINE if day < 5 else other), *pair(0.1 if day < 5 else 0.4))

    found = history_of(tmp_path)

    ratios = [each for each in found.series if each.quantity == "ratio"]
    assert [(each.machine, len(each.points), each.changes) for each in ratios] == [
        ("amd-epyc-2-cores", 4, ()),
        ("another", 4, ()),
    ]


def test_another_baseline_can_be_pinned(tmp_path):
    for day in range(1, 5):
        keep(tmp_path, run(day), *pair(0.1), measured("einsum", seconds=samples(0.05)), measured("alone", "ladder/1k"))

    found = history_of(tmp_path, "attention/loops")

    of = series(found, "attention/einsum")
    assert (of.baseline, of.points[0].value, of.points[0].low) == ("attention/loops", 0.5, 0.5)
    assert series(found, "attention/matmul").points[0].value == 2.0
    assert series(found, "attention/loops", "time").points[0].value == 0.1
    assert series(found, "attention/alone", "time"), "where the baseline was not timed there is the time alone"


def test_a_changed_source_of_the_baseline_breaks_the_line(tmp_path):
    for day in range(1, 5):
        keep(tmp_path, run(day, sources={"attention/matmul": str(day >= 3)}), *pair(0.1))

    assert series(history_of(tmp_path)).breaks == ("r03",)


def test_questions_that_are_answered_otherwise_are_named_and_others_are_not(tmp_path):
    keep(tmp_path, run(1), outcome("a"), outcome("b"), outcome("c", "wrong"))
    keep(tmp_path, run(2), outcome("a"))  # not all is asked
    keep(
        tmp_path,
        run(3),
        outcome("a"),
        outcome("b", "wrong", known="f"),
        outcome("c"),
        outcome("new"),
        outcome("x", "died"),
    )
    keep(
        tmp_path,
        run(4),
        outcome("a"),
        outcome("b", "wrong", known="f"),
        outcome("c"),
        outcome("new"),
        outcome("x", "died"),
    )

    (of,) = history_of(tmp_path).conformance

    assert [(each.run, each.asked, each.passed, each.failed, each.known) for each in of.points] == [
        ("r01", 3, 2, 1, 0), ("r02", 1, 1, 0, 0), ("r03", 5, 3, 2, 1), ("r04", 5, 3, 2, 1),
    ]  # fmt: skip
    assert [(each.run, each.after, each.case, each.before, each.now) for each in of.changes] == [
        ("r03", "r01", "b", "passed", "wrong (known)"),
        ("r03", "r01", "c", "wrong", "passed"),
        ("r03", "", "x", "", "died"),
    ]


def test_a_measurement_that_is_refused_from_a_run_on_is_said(tmp_path):
    keep(tmp_path, run(1), *pair(0.1))
    keep(tmp_path, run(2), outcome("a"))
    keep(tmp_path, run(3), pair(0.1)[0], without_time("loops", "refused"))
    keep(tmp_path, run(4), pair(0.1)[0], without_time("loops", "refused"))

    (of,) = history_of(tmp_path).statuses

    assert (of.implementation, of.table) == ("attention/loops", "vit/b16 float32 cpu 1 thread forward hot")
    assert (of.after, of.run, of.before, of.now) == ("r01", "r03", "measured", "refused")


def test_by_commit_older_commits_that_were_measured_later_stand_in_their_place(tmp_path):
    commits = [committed(tmp_path, number) for number in (1, 2, 3)]
    for day, commit in ((1, commits[0]), (2, commits[2]), (3, commits[1]), (4, f"{commits[1]}-dirty"), (5, "unknown")):
        keep(tmp_path, run(day, commit=commit), outcome("a"))

    assert [each.id for each in history_of(tmp_path).runs] == ["r01", "r02", "r03", "r04", "r05"]
    assert [each.id for each in history_of(tmp_path, by_commit=True).runs] == ["r01", "r03", "r04", "r02", "r05"]


def committed(folder: Path, day: int) -> str:
    """A commit of a day of the year before, as a run names it."""
    date = {f"GIT_{who}_DATE": f"2025-01-{day:02}T00:00:00Z" for who in ("AUTHOR", "COMMITTER")}
    names = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        surroundings = {**os.environ, **date, **names, **alone}
        return subprocess.run(command, check=True, env=surroundings, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", str(day))
    return git("rev-parse", "--short=12", "HEAD")


def test_a_folder_without_history_has_none(tmp_path):
    assert history_of(tmp_path) == History()


def test_a_damaged_file_is_one_line(tmp_path):
    keep(tmp_path, run(1), outcome("a"))
    next(tmp_path.glob("history/*/r01.gz")).write_bytes(b"x")

    with pytest.raises(UsageError, match=r"r01\.gz"):
        history_of(tmp_path)
