"""History keeps every run in a small file of its own, whatever later runs replace and whenever a process is killed."""

from __future__ import annotations

import gzip
import json
import math
import random
import shutil

import pytest
from builders import BASELINES
from msgspec.structs import replace
from stored import MACHINE, RUN, SECOND, killed_when_ready, measurement, outcome, record

from attnsuite.model import Facts, Snapshot, Status, UsageError
from attnsuite.results.store import Results, history, snapshots

TIMED = replace(RUN, facts=Facts(BASELINES))
HONEST = replace(TIMED, commit="", suite="1" * 12, sources={"attention/loops": "0" * 12})
"""One in which nothing is amiss."""
SLOW = tuple(0.2 + 0.001 * (number % 3) for number in range(20))
FAST = tuple(each / 2 for each in SLOW)
PAIR = (
    measurement(name="attention/matmul", seconds=SLOW, memory={"resident": 4096.0}),
    measurement(name="attention/loops", seconds=FAST),
)


def kept(results) -> list[Snapshot]:
    return history.read(results)


def files(results) -> list[str]:
    return sorted(path.relative_to(results / "history").as_posix() for path in results.glob("history/*/*"))


def letters(of: Snapshot) -> dict[str, dict[str, str]]:
    """What became of each question, by implementation."""
    return {each.implementation: dict(zip(each.questions, each.letters, strict=True)) for each in of.answered}


def test_a_run_that_is_finished_is_kept_and_the_next_one_does_not_replace_it(tmp_path):
    record(tmp_path, RUN, outcome("a"), outcome("b", "wrong"))
    record(tmp_path, SECOND, outcome("a", "wrong", known="a-finding"), outcome("b"))

    first, second = kept(tmp_path)

    assert files(tmp_path) == [f"{MACHINE.name}/r1.gz", f"{MACHINE.name}/r2.gz"]
    assert letters(first) == {"attention/loops": {"a float32": "p", "b float32": "w"}}
    assert letters(second) == {"attention/loops": {"a float32": "W", "b float32": "p"}}
    assert first.run == replace(RUN, finished=first.run.finished)


def test_times_are_kept_as_medians_and_ratios_to_the_baseline_of_the_same_rounds(tmp_path):
    record(tmp_path, TIMED, *PAIR)

    (of,) = kept(tmp_path)
    loops, matmul = of.timed

    assert (loops.baseline, loops.ratio, loops.ratio_low, loops.ratio_high) == ("attention/matmul", 0.5, 0.5, 0.5)
    assert (loops.rounds, loops.median, loops.low) == (20, 0.1005, 0.1)
    assert (matmul.ratio, matmul.peak, loops.peak) == (1.0, 4096.0, None)


def test_without_a_baseline_or_with_too_few_rounds_there_is_no_ratio_or_interval(tmp_path):
    record(tmp_path, TIMED, PAIR[1], measurement("ladder/2k", "declined"))
    record(tmp_path, replace(TIMED, id="r2", suite="s2"), measurement(), measurement(name="attention/matmul"))

    (alone, declined), (few, _) = (of.timed for of in kept(tmp_path))

    assert (alone.ratio, alone.baseline) == (None, "")
    assert (declined.status, declined.median) == (Status.DECLINED, None)
    assert (few.ratio, few.ratio_low, few.rounds) == (1.0, None, 2)


def test_a_run_that_is_killed_while_it_is_kept_is_finished_later_and_nothing_is_lost(tmp_path):
    record(tmp_path, RUN, outcome("a"))
    program = """
writer = Results(results).open_run(SECOND)
writer.write(outcome("b"))
import attnsuite.results.store.files
os.{place} = ready
writer.finish()
"""
    for place in ("fsync", "rename"):
        killed_when_ready(tmp_path, program.format(place=place))
        assert [of.run.id for of in kept(tmp_path)][:1] == ["r1"]

    with Results(tmp_path).open_run(SECOND) as writer:
        assert writer.resumed
        writer.finish()

    assert [letters(of)["attention/loops"] for of in kept(tmp_path)] == [{"a float32": "p"}, {"b float32": "p"}]


def test_where_history_cannot_be_written_the_run_stays_unfinished_and_goes_on_later(tmp_path):
    (tmp_path / "history").write_text("a file")

    with pytest.raises(UsageError, match="cannot be written"):
        record(tmp_path, RUN, outcome("a"))
    (tmp_path / "history").unlink()

    with Results(tmp_path).open_run(RUN) as writer:
        assert writer.resumed
        assert writer.recorded == [outcome("a")]
        writer.finish()
    assert len(kept(tmp_path)) == 1


def test_nothing_is_kept_of_a_run_without_answers_and_times(tmp_path):
    record(tmp_path, RUN)

    assert files(tmp_path) == []
    assert kept(tmp_path) == []


def test_runs_of_before_are_added_from_their_rows_and_a_second_time_changes_nothing(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    record(old, RUN, outcome("a"), outcome("b"))
    record(new, RUN, outcome("a"), outcome("b"))
    record(new, SECOND, outcome("b", "wrong"))  # a row of the first run is gone
    shutil.rmtree(new / "history")  # as an attnsuite without history left it

    added = list(history.add(tmp_path, new))

    assert [path.name for path in added] == ["r1.gz", "r2.gz"]
    assert letters(kept(tmp_path)[0]) == {"attention/loops": {"a float32": "p"}}
    assert [path.name for path in history.add(tmp_path, old)] == ["r1.gz"], "it holds more now"
    assert letters(kept(tmp_path)[0]) == {"attention/loops": {"a float32": "p", "b float32": "p"}}
    assert list(history.add(tmp_path, new)) == list(history.add(tmp_path, old)) == []
    assert len(kept(tmp_path)) == 2


def test_the_history_of_another_folder_is_added_with_its_rows(tmp_path):
    record(tmp_path / "there", RUN, outcome("a"))
    record(tmp_path / "there", SECOND, outcome("a"))

    assert len(list(history.add(tmp_path / "here", tmp_path / "there"))) == 2
    assert kept(tmp_path / "here") == kept(tmp_path / "there")


def test_ratios_that_an_earlier_look_had_are_not_lost_where_the_baseline_is_gone():
    whole, part = snapshots.snapshot(TIMED, PAIR), snapshots.snapshot(TIMED, PAIR[1:])

    assert snapshots.joined(part, whole) == snapshots.joined(whole, part) == whole


def test_a_run_of_3000_measurements_and_60000_answers_takes_100_kb_at_most_and_is_read_again(tmp_path):
    draw = random.Random(5)
    times = [
        measurement(f"ladder/{number // 30}", name=f"attention/kernel{number % 30}", memory={"resident": draw.random()},
                    seconds=[draw.lognormvariate(-7, 2) for _ in range(9)])
        for number in range(3000)
    ]  # fmt: skip
    answers = [
        outcome(f"family{number % 37}/case number {number}", draw.choice(["passed"] * 9 + ["wrong"]), f"attention/k{k}")
        for k in range(20)
        for number in range(3000)
    ]
    of = snapshots.snapshot(replace(TIMED, finished="2026-01-02T04:00:00+00:00"), [*times, *answers])

    data = snapshots.packed(of)

    assert len(data) <= snapshots.LARGEST == 100_000
    assert data == snapshots.packed(of), "the same snapshot gives the same bytes"
    again = snapshots.unpacked(gzip.decompress(data))
    assert (again.left_out, len(again.timed), again.answered) == (0, 3000, of.answered)
    for mine, theirs in zip(again.timed, of.timed, strict=True):
        assert mine.key == theirs.key
        assert math.isclose(mine.median, theirs.median, rel_tol=0.001)


def test_of_a_run_that_is_larger_still_some_measurements_are_left_out_and_counted(monkeypatch):
    monkeypatch.setattr(snapshots, "LARGEST", 3000)
    draw = random.Random(5)
    times = [measurement(f"{draw.random()}", seconds=[draw.random()] * 9) for _ in range(300)]

    data = snapshots.packed(snapshots.snapshot(TIMED, times))

    again = snapshots.unpacked(gzip.decompress(data))
    assert len(data) <= snapshots.LARGEST
    assert 0 < again.left_out < 200
    assert again.left_out + len(again.timed) == 300


def test_of_what_is_left_out_the_rest_still_agrees_and_nothing_is_left_out_of_a_small_file(monkeypatch):
    draw = random.Random(5)
    times = [measurement(f"{draw.random()}", seconds=[draw.random()] * 9) for _ in range(300)]
    due = snapshots.snapshot(TIMED, times)
    monkeypatch.setattr(snapshots, "LARGEST", 3000)
    full = snapshots.unpacked(gzip.decompress(snapshots.packed(due)))
    assert full.left_out

    faster = replace(full, timed=tuple(replace(each, median=each.median / 1000) for each in full.timed))
    few = replace(full, timed=full.timed[:5])

    assert [snapshots.agree(each, due) for each in (full, faster, few)] == [True, False, False]


def altered(path, change) -> None:
    row = json.loads(gzip.decompress(path.read_bytes()))
    change(row)
    path.write_bytes(gzip.compress(json.dumps(row).encode()))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda row: row.update(format=9), "the format is 9"),
        (lambda row: row.pop("timed"), "timed should be"),
        (lambda row: row["timed"]["median"].append(1), "not of one length"),
        (lambda row: row["timed"].update(median=["x", "y"]), "median"),
        (lambda row: row["timed"].update(strange=[1, 2]), "strange"),
        (lambda row: row["answered"][0]["letters"]["cpu"].update(a="pp"), "2 answers to 1 questions"),
        (lambda row: row["answered"][0]["letters"]["cpu"].update(a="q"), "no status has"),
        (lambda row: row["run"].update(id="other"), "it is the run other"),
        (lambda row: row["run"].update(id="../r1"), "cannot be the name"),
        (lambda row: row.update(left_out=-1), "left_out"),
    ],
)
def test_a_file_that_is_not_as_it_was_written_is_one_line_that_names_it(tmp_path, change, says):
    record(tmp_path, TIMED, *PAIR, outcome("a"))
    path = tmp_path / "history" / MACHINE.name / "r1.gz"
    altered(path, change)

    with pytest.raises(UsageError, match=says) as said:
        kept(tmp_path)

    assert "r1" in str(said.value)
    assert "\n" not in str(said.value)


@pytest.mark.parametrize(
    ("before", "now", "is_amiss"),
    [
        ('"wp"', '"pp"', True),
        ("[0.1005,0.201]", "[0.1006,0.201]", True),
        ('"torch":"2.13.0"', '"torch":"2.12.0"', True),
        ("[0.5,1.0]", "[0.4,1.0]", False),  # the baseline's row is gone, and with it what the ratios were made of
    ],
)
def test_what_says_otherwise_than_the_rows_of_its_run_is_amiss(tmp_path, before, now, is_amiss):
    record(tmp_path, HONEST, *PAIR, outcome("a", "wrong"), outcome("b"))
    record(tmp_path, replace(HONEST, id="r2", suite="2" * 12), PAIR[0], outcome("b"))  # the others' rows stay
    path = tmp_path / "history" / MACHINE.name / "r1.gz"
    text = gzip.decompress(path.read_bytes()).decode()

    def amiss() -> list[str]:
        return [str(each) for each in history.refusals(tmp_path, [Results(tmp_path).read(MACHINE.name)])]

    assert before in text
    assert amiss() == []
    path.write_bytes(gzip.compress(text.replace(before, now).encode()))
    assert amiss() == [f"{path}: it says otherwise than the rows of the run r1"] * is_amiss


@pytest.mark.parametrize("data", [b"", b"no gzip", gzip.compress(b"[]", mtime=0), gzip.compress(b"{", mtime=0)])
def test_a_file_that_is_none_is_one_line(tmp_path, data):
    record(tmp_path, RUN, outcome("a"))
    path = tmp_path / "history" / MACHINE.name / "r1.gz"
    path.write_bytes(data)

    with pytest.raises(UsageError, match=r"r1\.gz"):
        kept(tmp_path)


def test_a_folder_without_results_is_one_line(tmp_path):
    with pytest.raises(UsageError, match="holds no results"):
        list(history.add(tmp_path, tmp_path))


@pytest.mark.parametrize(
    ("before", "now", "says"),
    [
        ("[0.1005,0.201]", "[1.005,0.201]", "forward hot: median is 1.005, between 0.1 and 0.101"),
        ('"ratio":[0.5,1.0]', '"ratio":[0.05,1.0]', "forward hot: ratio is 0.05, between 0.5 and 0.5"),
        ('"rounds":[20,20]', '"rounds":[0,20]', "is measured, its median 0.1005 of 0 rounds"),
        ('"rounds":[20,20]', '"rounds":[20,2000000000]', "2000000000 rounds of 0.201 s are longer than the run"),
        ('"suite":"111111111111"', '"suite":"x"', "the hash of suite is 'x', not 12 hexadecimal digits"),
    ],
)
def test_a_kept_run_of_which_no_row_is_left_cannot_say_what_no_run_has(tmp_path, before, now, says):
    record(tmp_path, HONEST, *PAIR)
    path = tmp_path / "history" / MACHINE.name / "r1.gz"
    text = gzip.decompress(path.read_bytes()).decode()
    assert before in text
    path.write_bytes(gzip.compress(text.replace(before, now).encode()))

    assert any(says in str(each) for each in history.refusals(tmp_path, []))


def test_a_file_of_a_run_that_is_kept_is_missed_where_it_is_gone_and_can_be_added_again(tmp_path):
    record(tmp_path, HONEST, outcome("a"))
    record(tmp_path, replace(HONEST, id="r2", suite="2" * 12, started="2026-01-03T03:04:05+00:00"), outcome("b"))
    machines = [Results(tmp_path).read(MACHINE.name)]
    of_second = tmp_path / "history" / MACHINE.name / "r2.gz"
    of_second.unlink()

    (lost,) = history.refusals(tmp_path, machines)
    assert str(lost).startswith(
        f"{of_second}: there is no such file, and rows of its run are there; `attnsuite history"
    )
    assert list(history.add(tmp_path, tmp_path)) == [of_second]
    assert list(history.refusals(tmp_path, machines)) == []


@pytest.mark.parametrize(("keeps", "is_missed"), [(True, True), (False, False), (None, False)])
def test_the_first_file_is_missed_where_the_version_of_its_run_keeps_runs(tmp_path, keeps, is_missed):
    record(tmp_path, HONEST, outcome("a"))
    record(tmp_path, replace(HONEST, id="r2", suite="2" * 12, started="2026-01-03T03:04:05+00:00"), outcome("b"))
    of_first = tmp_path / "history" / MACHINE.name / "r1.gz"
    of_first.unlink()
    machines = [Results(tmp_path).read(MACHINE.name)]

    said = list(history.refusals(tmp_path, machines, lambda run: keeps))

    assert [each.path for each in said] == [str(of_first)] * is_missed


def test_where_there_is_no_history_at_all_none_is_missed(tmp_path):
    record(tmp_path, HONEST, outcome("a"))
    shutil.rmtree(tmp_path / "history")

    assert list(history.refusals(tmp_path, [Results(tmp_path).read(MACHINE.name)], lambda run: True)) == []
