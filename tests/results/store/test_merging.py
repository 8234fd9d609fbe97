"""Folders of shards and of machines become one: order is of no account, nothing is lost, what is missing is named."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from itertools import permutations
from pathlib import Path

import honest
import pytest
from msgspec.structs import replace
from shards import BENCH, CASES, CHECK, FACTS, OTHER, shard, stored
from stored import MACHINE, killed_when_ready, measurement, outcome, record

from attnsuite.model import Facts, Operators, Outcome, Run, UsageError
from attnsuite.results.store import Results, read_outcomes, verify
from attnsuite.results.store.merging import merged


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    """Four shards of a check, each with one case."""
    return [stored(tmp_path / "parts", index) for index in range(1, 5)]


def files(folder: Path) -> dict[str, bytes]:
    """All that is in a folder, by path."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def only(results: Path) -> Run:
    """The only run of the only machine."""
    (recorded,) = read_outcomes(results).values()
    (run,) = recorded.runs.values()
    return run


def answered(results: Path) -> list[str]:
    """The cases that have outcomes, of all machines."""
    return sorted(of.case for recorded in read_outcomes(results).values() for of in recorded.outcomes)


def refused(*arguments: object, **options: object) -> str:
    """The line with which a merge is refused."""
    with pytest.raises(UsageError) as error:
        merged(*arguments, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_shards_become_one_run_that_counts_them(shards: list[Path], tmp_path: Path) -> None:
    found = merged(shards, tmp_path / "out")

    run = only(tmp_path / "out")
    assert [(each.id, rows) for each, rows in found.runs] == [("r1", 4)]
    assert run.shards == {"1/4": "r1", "2/4": "r2", "3/4": "r3", "4/4": "r4"}
    assert (run.shard, run.started) == ("", "2026-01-02T03:01:00+00:00")
    assert answered(tmp_path / "out") == sorted(CASES)
    assert verify(tmp_path / "out" / MACHINE.name).refusals == ()


def test_folders_are_found_at_any_depth_and_each_is_read_once(shards: list[Path], tmp_path: Path) -> None:
    deep = tmp_path / "parts" / "a" / "b"
    deep.mkdir(parents=True)
    shards[0].rename(deep / "moved")

    merged([tmp_path / "parts", deep, tmp_path / "parts"], tmp_path / "out")

    assert answered(tmp_path / "out") == sorted(CASES)


def test_the_order_of_folders_is_of_no_account(shards: list[Path], tmp_path: Path) -> None:
    different = set()
    for number, order in enumerate([*permutations(shards)][::7]):
        merged(order, tmp_path / f"out-{number}")
        different.add(tuple(files(tmp_path / f"out-{number}").items()))

    assert len(different) == 1


def test_merging_again_changes_nothing(shards: list[Path], tmp_path: Path) -> None:
    merged(shards, tmp_path / "out")
    once = files(tmp_path / "out")

    merged(shards, tmp_path / "out")

    assert files(tmp_path / "out") == once


def test_a_missing_shard_is_named_and_refused(shards: list[Path], tmp_path: Path) -> None:
    said = refused([shards[0], shards[2]], tmp_path / "out")

    assert said.startswith("check on cpu in 4 shards: 2 of 4 shards are missing: 2/4, 4/4. Nothing is merged; ")
    assert not (tmp_path / "out").exists()


def test_what_is_there_is_merged_in_part_and_what_is_missing_said(shards: list[Path], tmp_path: Path) -> None:
    found = merged([shards[0], shards[2]], tmp_path / "out", partial=True)

    assert found.notes == ["check on cpu in 4 shards: 2 of 4 shards are missing: 2/4, 4/4"]
    assert list(only(tmp_path / "out").shards) == ["1/4", "3/4"]


def test_a_part_that_was_merged_is_completed_and_stays_the_same_run(shards: list[Path], tmp_path: Path) -> None:
    merged(shards[2:], tmp_path / "out", partial=True)
    merged(shards[:2], tmp_path / "out")  # without the others, which are in the folder already

    assert only(tmp_path / "out").id == "r3"
    assert answered(tmp_path / "out") == sorted(CASES)
    assert len([*(tmp_path / "out" / "history").rglob("*.gz")]) == 1
    merged(shards, tmp_path / "out")
    assert only(tmp_path / "out").id == "r3"


def test_a_shard_that_two_runs_answered_is_refused_with_both_folders(shards: list[Path], tmp_path: Path) -> None:
    again = stored(tmp_path / "again", 2, id="r9")

    for partial in (False, True):
        said = refused([*shards, again], tmp_path / "out", partial=partial)
        places = f"2/4 in {shards[1] / MACHINE.name} and in {again / MACHINE.name}"
        assert said.startswith(f"check on cpu in 4 shards: shards are answered twice: {places}")


def test_a_copy_of_a_shard_is_the_shard(shards: list[Path], tmp_path: Path) -> None:
    copy = shutil.copytree(shards[1], tmp_path / "copy")

    merged([copy, *shards], tmp_path / "out")

    assert answered(tmp_path / "out") == sorted(CASES)


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (outcome("plain"), outcome("plain", "wrong"), r"\(passed\) .* \(wrong\)"),
        (measurement(seconds=(0.5,)), measurement(seconds=(0.25, 0.5)), r"\(measured, 1 samples\) .* 2 samples\)"),
    ],
)
def test_one_question_with_two_answers_is_refused_with_both_folders(
    tmp_path: Path, one: Outcome, other: Outcome, words: str
) -> None:
    parts = [stored(tmp_path, 1, one), stored(tmp_path, 2, other), stored(tmp_path, 3), stored(tmp_path, 4)]

    with pytest.raises(UsageError, match=words) as error:
        merged(parts, tmp_path / "out")

    assert all(str(part / MACHINE.name) in str(error.value) for part in parts[:2])
    assert not (tmp_path / "out").exists()


def test_shards_of_two_machines_are_whole_together_and_a_run_each(tmp_path: Path) -> None:
    parts = [stored(tmp_path, index, machine=MACHINE if index < 3 else OTHER) for index in range(1, 5)]

    merged(parts, tmp_path / "out")

    runs = {name: [*of.runs.values()] for name, of in read_outcomes(tmp_path / "out").items()}
    assert {name: [list(run.shards) for run in of] for name, of in runs.items()} == {
        MACHINE.name: [["1/4", "2/4"]],
        OTHER.name: [["3/4", "4/4"]],
    }


def test_two_machines_that_answered_everything_are_no_overlap(tmp_path: Path) -> None:
    both = {MACHINE.name: MACHINE, OTHER.name: OTHER}
    parts = [stored(tmp_path / name, index, machine=of) for name, of in both.items() for index in range(1, 5)]

    merged(parts, tmp_path / "out")

    assert {name: sorted(o.case for o in of.outcomes) for name, of in read_outcomes(tmp_path / "out").items()} == {
        name: sorted(CASES) for name in both
    }


def test_a_shard_that_two_machines_answered_is_refused_unless_parts_are_wanted(tmp_path: Path) -> None:
    parts = [stored(tmp_path, index, machine=MACHINE if index < 3 else OTHER) for index in range(1, 5)]
    again = stored(tmp_path / "again", 2, id="r9", machine=OTHER)

    assert f"answered twice: 2/4 in {parts[1] / MACHINE.name} and in" in refused([*parts, again], tmp_path / "out")
    merged([*parts, again], tmp_path / "out", partial=True)
    assert list(read_outcomes(tmp_path / "out")[OTHER.name].run.shards) == ["2/4", "3/4", "4/4"]


def test_versions_are_runs_of_their_own(tmp_path: Path) -> None:
    parts = [
        stored(tmp_path / torch, index, outcome(CASES[index - 1], dtype=dtype), versions={"torch": torch})
        for torch, dtype in (("2.12.0", "float32"), ("2.13.0", "float64"))
        for index in range(1, 5)
    ]

    merged(parts, tmp_path / "out")

    runs = read_outcomes(tmp_path / "out")[MACHINE.name].runs
    assert sorted((run.versions["torch"], len(run.shards)) for run in runs.values()) == [("2.12.0", 4), ("2.13.0", 4)]


def test_machines_called_alike_that_differ_get_folders_of_their_own(tmp_path: Path) -> None:
    larger = replace(MACHINE, caches={"L3": 300 * 2**20})
    smaller = replace(MACHINE, caches={"L3": 260 * 2**20})
    parts = [stored(tmp_path, index, machine=larger if index < 3 else smaller) for index in range(1, 5)]

    merged(parts, tmp_path / "out")

    assert len(read_outcomes(tmp_path / "out")) == 2


def test_nodes_of_one_kind_are_one_machine(tmp_path: Path) -> None:
    nodes = [replace(MACHINE, memory_bytes=MACHINE.memory_bytes + index * 2**20) for index in range(1, 5)]
    merged([stored(tmp_path, of, machine=node) for of, node in enumerate(nodes, 1)], tmp_path / "out")

    assert len(only(tmp_path / "out").shards) == 4


def test_a_killed_shard_is_missing_until_it_is_resumed(shards: list[Path], tmp_path: Path) -> None:
    shutil.rmtree(shards[3])
    begin = "from shards import *\nwriter = Results(results).open_run(shard(4))\n"
    killed_when_ready(shards[3], begin + "writer.write(outcome('small', dtype='float16'))\nready()")

    said = refused(shards, tmp_path / "out")
    assert f"missing: 4/4 (begun in {shards[3] / MACHINE.name}, not finished)" in said
    assert "4/4" not in only_partial(shards, tmp_path / "some").shards
    writer = record(shards[3], shard(4), outcome("small"))
    assert writer.resumed
    merged(shards, tmp_path / "out")
    assert answered(tmp_path / "out") == sorted([*CASES, "small"])


def only_partial(folders: Iterable[Path], into: Path) -> Run:
    """The only run of what can be merged."""
    merged([*folders], into, partial=True)
    return only(into)


def test_what_was_begun_and_is_answered_elsewhere_is_left_out(shards: list[Path], tmp_path: Path) -> None:
    record(tmp_path / "begun", shard(4, id="r8", machine=OTHER), outcome("small"), finish=False)

    found = merged([*shards, tmp_path / "begun"], tmp_path / "out")

    begun = tmp_path / "begun" / OTHER.name
    assert found.notes == [f"{begun}: the shard 4/4 was not finished here, and is answered elsewhere"]


def test_runs_that_were_not_divided_come_along_as_they_are(shards: list[Path], tmp_path: Path) -> None:
    record(tmp_path / "whole", replace(CHECK, id="w1"), honest.timed(), outcome("plain", "wrong", detail="off"))

    merged([tmp_path / "whole", *shards], tmp_path / "out")

    recorded = read_outcomes(tmp_path / "out")[MACHINE.name]
    assert set(recorded.runs) == {"r1", "w1"}
    assert {of.key: identity for identity, of in recorded.measured} == {measurement().key: "w1"}
    assert verify(tmp_path / "out" / MACHINE.name).refusals == ()


def test_a_run_that_was_not_divided_and_not_finished_is_refused(tmp_path: Path) -> None:
    record(tmp_path / "whole", replace(CHECK, id="w1"), outcome(), finish=False)

    assert "check on cpu is not finished" in refused([tmp_path / "whole"], tmp_path / "out")


def test_what_the_folder_holds_stays_but_for_older_answers(shards: list[Path], tmp_path: Path) -> None:
    earlier = replace(CHECK, id="e1", started="2025-01-02T03:04:05+00:00", finished="")
    record(tmp_path / "out", earlier, outcome("plain", "wrong"), outcome("plain", name="attention/chunked"))
    mark_finished(tmp_path / "out", "2025-01-02T03:05:05+00:00")

    merged(shards, tmp_path / "out")

    found = {(of.implementation, of.case): of.status for of in read_outcomes(tmp_path / "out")[MACHINE.name].outcomes}
    assert found["attention/loops", "plain"] == "passed"
    assert found["attention/chunked", "plain"] == "passed"


def test_older_answers_to_what_does_not_exist_any_more_go(tmp_path: Path) -> None:
    gone = measurement("ladder/9k"), outcome("gone"), outcome("gone", name="attention/chunked")
    record(tmp_path / "out", replace(CHECK, id="e1", facts=Facts()), *gone)
    whole = replace(CHECK, facts=replace(FACTS, whole=("attention/loops",)))
    parts = [stored(tmp_path, index, of=whole) for index in range(1, 5)]

    merged(parts[:3], tmp_path / "out", partial=True)
    assert ("attention/loops", "gone") in asked(tmp_path / "out")
    merged(parts, tmp_path / "out")

    assert ("attention/loops", "gone") not in asked(tmp_path / "out")
    assert ("attention/chunked", "gone") in asked(tmp_path / "out")
    assert not read_outcomes(tmp_path / "out")[MACHINE.name].measurements


def asked(results: Path) -> list[tuple[str, str]]:
    return [(of.implementation, of.case) for of in read_outcomes(results)[MACHINE.name].outcomes]


def test_timed_calls_of_shards_that_ran_at_once_are_no_longer_than_all_of_them(tmp_path: Path) -> None:
    begun = {"started": "2026-01-02T03:00:00+00:00"}
    parts = []
    for index in range(1, 5):
        threads, dtype = index % 2 + 1, ("float32", "float64")[index // 3]
        of = honest.timed("ladder/1k", threads=threads, dtype=dtype, seconds=(9.0,))
        parts.append(tmp_path / f"shard-{index}-of-4")
        record(parts[-1], shard(index, of=BENCH, **begun), of)
        mark_finished(parts[-1], "2026-01-02T03:00:05+00:00")

    merged(parts, tmp_path / "out")

    assert [str(each) for each in verify(tmp_path / "out" / MACHINE.name).refusals] == []


def mark_finished(results: Path, when: str) -> None:
    """Say that the run in a folder ended then."""
    from attnsuite.results.store import contents, together

    folder = results / MACHINE.name
    there = contents.read(folder)
    runs = {name: replace(run, finished=when) for name, run in there.runs.items()}
    together.replace_together(folder, contents.written(replace(there, runs=runs)))


def test_facts_of_shards_are_those_of_the_whole(tmp_path: Path) -> None:
    ran = [{"attention/mine": Operators(2, {"aten::bmm": 2})}, {"attention/mine": Operators(1, {"aten::bmm": 1})}]
    for index in range(1, 5):
        more = {"seconds": {"rounds": 0.5}, "operators": ran[index % 2]}
        record(tmp_path / f"shard-{index}-of-4", shard(index), outcome(CASES[index - 1]), finish=True, **more)

    merged([tmp_path], tmp_path / "out")

    facts = only(tmp_path / "out").facts
    assert facts.contracts == FACTS.contracts
    assert facts.seconds == {"rounds": 2.0}
    assert facts.operators == {"attention/mine": Operators(6, {"aten::bmm": 6})}


def test_a_later_run_of_a_shard_takes_the_place_of_the_former(shards: list[Path], tmp_path: Path) -> None:
    edited = replace(CHECK, sources={"attention/loops": "2b" * 6})
    for index in range(1, 5):
        record(shards[index - 1], shard(index, of=edited, id=f"s{index}"), outcome(CASES[index - 1]))
    record(shards[3], shard(4, of=edited, id="s5", suite="6f" * 6))  # nothing falls into it now

    said = refused(shards, tmp_path / "out")

    assert "1/4, 2/4, 3/4" in said, "the fourth shard of the edited sources is there, in another suite"


@pytest.mark.parametrize("text", ["", "nothing here\n"])
def test_a_folder_without_results_is_one_line(shards: list[Path], tmp_path: Path, text: str) -> None:
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "readme.txt").write_text(text)

    assert refused([tmp_path / "else"], tmp_path / "out") == (
        f"{tmp_path / 'else'} holds no results, at any depth, that could be merged into {tmp_path / 'out'}"
    )
    assert "there is no folder" in refused([tmp_path / "nowhere"], tmp_path / "out")
    found = merged([*shards, tmp_path / "else"], tmp_path / "out", partial=True)
    assert len(found.notes) == 1


def test_a_folder_of_another_format_is_one_line_and_all_stays(shards: list[Path], tmp_path: Path) -> None:
    merged(shards, tmp_path / "out")
    before = files(tmp_path / "out")
    path = shards[2] / MACHINE.name / "runs.jsonl"
    path.write_text(path.read_text().replace('"format": 2', '"format": 3'))

    assert "a newer attnsuite wrote it, update yours" in refused(shards, tmp_path / "out")
    path.write_text(path.read_text().replace('"format": 3', '"format": 1'))
    assert "attnsuite migrate --results" in refused(shards, tmp_path / "out")
    path.write_text("{}\nnothing\n")
    assert str(path) in refused(shards, tmp_path / "out")
    assert files(tmp_path / "out") == before


def test_a_damaged_row_of_a_shard_is_one_line_and_all_stays(shards: list[Path], tmp_path: Path) -> None:
    path = shards[2] / MACHINE.name / "conformance.jsonl"
    path.write_text(path.read_text().replace("passed", "wrong"))

    assert str(path) in refused(shards, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_nobody_else_writes_meanwhile(shards: list[Path], tmp_path: Path) -> None:
    with Results(tmp_path / "out").open_run(CHECK):
        assert "another attnsuite is writing" in refused(shards, tmp_path / "out")


def test_impossible_shards_are_refused_by_verify(tmp_path: Path) -> None:
    for number, (parts, why) in enumerate(
        {("9/4", "1/4"): "counted from 1/4", ("1/4", "2/3"): "shards of 3 and of 4"}.items()
    ):
        out = tmp_path / str(number)
        record(out, replace(CHECK, shards=dict.fromkeys(parts, "r1")), outcome("plain"))
        assert any(why in str(each) for each in verify(out / MACHINE.name).refusals)
