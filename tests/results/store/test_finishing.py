"""When a run is finished its rows take the places of those that it supersedes, and no others go."""

import pytest
from msgspec.structs import replace
from stored import (
    MISSING,
    RUN,
    SECOND,
    THIRD,
    folder,
    journal,
    measurement,
    names,
    outcome,
    read,
    record,
    table,
)

from attnsuite.model import EVERY_CASE, Facts, UsageError
from attnsuite.results.store import Recorded, Results

MAKE = {"benchmark": measurement, "conformance": outcome}


def test_a_newer_run_supersedes_the_same_questions_only(tmp_path):
    other = outcome("a", name="attention/matmul")
    record(tmp_path, RUN, outcome("a", "wrong"), outcome("b"), outcome("a", "wrong", device="cuda"), other)
    record(tmp_path, replace(RUN, id="r2"), outcome("a"))

    recorded = read(tmp_path)

    assert recorded.rows == (
        ("r2", outcome("a")),
        ("r1", outcome("a", "wrong", device="cuda")),
        ("r1", outcome("b")),
        ("r1", other),
    )
    assert len(table(tmp_path).read_text().splitlines()) == 4
    assert {name: run.id for name, run in recorded.earlier.items()} == {
        "attention/loops": "r1",
        "attention/matmul": "r1",
    }


def test_a_newer_run_supersedes_the_same_measurement(tmp_path):
    record(tmp_path, RUN, measurement("a", seconds=(1.0,)), measurement("b"))
    record(tmp_path, SECOND, measurement("a"))

    assert read(tmp_path).measured == (("r2", measurement("a")), ("r1", measurement("b")))
    assert len(table(tmp_path, "benchmark").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"workload": "b"},
        {"dtype": "float16"},
        {"device": "cuda"},
        {"threads": 2},
        {"direction": "backward"},
        {"cache": "cold"},
        {"name": "attention/matmul"},
    ],
)
def test_what_is_timed_differently_is_another_row(tmp_path, change):
    other = measurement(**change)
    record(tmp_path, RUN, measurement(), other)

    assert record(tmp_path, SECOND, measurement(seconds=(1.0,))).measured == {measurement().key}
    assert {row.key: run for run, row in read(tmp_path).measured} == {measurement().key: "r2", other.key: "r1"}


def test_an_implementation_asked_whole_loses_the_cases_that_are_no_more(tmp_path):
    other = outcome("gone", name="attention/matmul")
    record(tmp_path, RUN, outcome("gone"), outcome("gone", device="cuda"), other)
    record(tmp_path, replace(RUN, id="r2"), outcome("a"), whole=["attention/loops"])

    assert read(tmp_path).outcomes == [outcome("a"), outcome("gone", device="cuda"), other]


def test_whole_is_about_outcomes_only(tmp_path):
    record(tmp_path, RUN, outcome("gone"), measurement("full/16k"))
    record(tmp_path, SECOND, outcome("a"), measurement("quick/1k"), whole=["attention/loops"])

    assert read(tmp_path).outcomes == [outcome("a")]
    assert read(tmp_path).measurements == [measurement("full/16k"), measurement("quick/1k")]


def test_runs_without_rows_go(tmp_path):
    for name in ("r1", "r2", "r3"):
        record(tmp_path, replace(RUN, id=name, suite=name), outcome("b" if name == "r1" else "a"))

    assert list(read(tmp_path).runs) == ["r1", "r3"]


def test_runs_stay_while_a_row_of_either_kind_refers_to_them(tmp_path):
    record(tmp_path, RUN, outcome(), measurement())
    record(tmp_path, SECOND, outcome())
    record(tmp_path, THIRD, outcome())
    assert [*read(tmp_path).runs] == ["r1", "r3"]

    record(tmp_path, replace(RUN, id="r4", suite="suite-4"), measurement())
    assert [*read(tmp_path).runs] == ["r3", "r4"]


def test_a_missing_library_outdates_older_answers_and_the_reverse(tmp_path):
    missing = outcome(EVERY_CASE, "missing", detail="No module named 'jax'")
    record(tmp_path, RUN, outcome("a"), outcome("b"))
    record(tmp_path, replace(RUN, id="r2"), missing)
    assert read(tmp_path).outcomes == [missing]

    record(tmp_path, replace(RUN, id="r3"), outcome("a"))
    assert read(tmp_path).outcomes == [outcome("a")]


def test_a_missing_library_outdates_older_measurements_and_the_reverse(tmp_path):
    elsewhere = [measurement("a", device="cuda", threads=0), measurement("a", name="attention/matmul")]
    record(tmp_path, RUN, measurement("a"), measurement("b"), *elsewhere)
    record(tmp_path, SECOND, MISSING)
    assert read(tmp_path).measurements == [MISSING, *elsewhere]

    record(tmp_path, THIRD, measurement("a"))
    assert read(tmp_path).measurements == [measurement("a"), *elsewhere]


def test_a_missing_library_of_one_kind_says_nothing_of_the_other(tmp_path):
    record(tmp_path, RUN, outcome(), measurement())
    record(tmp_path, SECOND, MISSING)
    assert read(tmp_path).outcomes == [outcome()]

    record(tmp_path, THIRD, measurement(), outcome(EVERY_CASE, "missing"))
    assert read(tmp_path).measurements == [measurement()]


@pytest.mark.parametrize(("mine", "theirs"), [("benchmark", "conformance"), ("conformance", "benchmark")])
def test_a_run_of_one_kind_leaves_the_rows_of_the_other_alone(tmp_path, mine, theirs):
    record(tmp_path, RUN, MAKE[theirs]("b"), MAKE[theirs]("a"))
    record(tmp_path, SECOND, MAKE[theirs]("a"), finish=False)
    before = table(tmp_path, theirs).read_bytes(), journal(tmp_path).read_bytes()

    third = record(tmp_path, THIRD, MAKE[mine]("a"), whole=["attention/loops"])

    assert (table(tmp_path, theirs).read_bytes(), journal(tmp_path).read_bytes()) == before
    assert [*read(tmp_path).runs] == ["r1", "r2", third.run.id]


@pytest.mark.parametrize("records", [[measurement("a")], [outcome()]])
def test_workloads_that_exist_no_more_go(tmp_path, records):
    jax = replace(MISSING, implementation="attention/jax_nn")
    gone = measurement("gone", name="attention/matmul")
    record(tmp_path, RUN, measurement("a"), measurement("b"), gone, jax)

    record(tmp_path, SECOND, *records, workloads={"attention": {"a", "b"}})

    assert read(tmp_path).measurements == [jax, measurement("a"), measurement("b")]
    assert len(table(tmp_path, "benchmark").read_text().splitlines()) == 3


def test_other_contracts_keep_their_workloads(tmp_path):
    record(tmp_path, RUN, measurement("a"), measurement("b"))

    record(tmp_path, SECOND, replace(measurement("c"), contract="transformer"), workloads={"transformer": {"c"}})

    assert sorted(row.workload for row in read(tmp_path).measurements) == ["a", "b", "c"]


def test_without_a_list_of_workloads_all_stay(tmp_path):
    record(tmp_path, RUN, measurement("gone"))
    record(tmp_path, SECOND, measurement("a"), workloads=None)
    assert [row.workload for row in read(tmp_path).measurements] == ["a", "gone"]

    record(tmp_path, THIRD, outcome(), workloads={"attention": []})
    assert read(tmp_path).measurements == []
    assert not (folder(tmp_path) / "benchmark.seconds.gz").exists()


def test_what_was_timed_and_for_how_long_joins_the_facts_of_the_start(tmp_path):
    started = Facts(findings={"a": "in words"})

    finished = record(
        tmp_path, replace(RUN, facts=started), measurement(), profile="quick", seconds={"rounds": 1.5}
    ).run

    assert finished.facts == replace(started, profile="quick", seconds={"rounds": 1.5})
    assert read(tmp_path).run == finished


def test_a_finished_run_leaves_no_journal(tmp_path):
    record(tmp_path, RUN, outcome(), measurement())

    assert names(tmp_path) == [
        *("benchmark.jsonl", "benchmark.seconds.gz"),
        *("conformance.error_ratio.gz", "conformance.jsonl", "conformance.seconds.gz"),
        *("facts.json", "runs.jsonl"),
    ]


def test_what_else_writes_to_the_journal_is_noticed_and_nothing_is_replaced(tmp_path):
    writer = Results(tmp_path).open_run(RUN)
    writer.write(outcome())
    forged = journal(tmp_path).read_text().replace('"passed"', '"raised"')
    journal(tmp_path).write_text(forged)

    with pytest.raises(UsageError, match="was changed by something else during this run"):
        writer.finish()

    writer.close()
    assert journal(tmp_path).read_text() == forged
    assert not read(tmp_path).runs[writer.run.id].finished


@pytest.mark.parametrize("forged", [None, "raised"], ids=["lost", "altered"])
def test_rows_of_a_resumed_run_are_those_that_it_was_opened_with(tmp_path, forged):
    record(tmp_path, RUN, outcome("a"), outcome("b"), finish=False)
    writer = Results(tmp_path).open_run(RUN)
    if forged:
        journal(tmp_path).write_text(journal(tmp_path).read_text().replace('"passed"', f'"{forged}"'))
    else:
        journal(tmp_path).unlink()

    for go_on in (lambda: writer.write(outcome("c")), writer.finish):
        with pytest.raises(UsageError, match="was changed by something else during this run"):
            go_on()

    writer.close()
    assert not read(tmp_path).runs[writer.run.id].finished


# Which run


def test_each_kind_has_its_own_newest_run(tmp_path):
    record(tmp_path, RUN, outcome("a"), outcome("a", name="attention/chunked"), measurement("a"))
    record(tmp_path, SECOND, outcome("a"))
    record(tmp_path, THIRD, measurement("b"), finish=False)

    recorded = read(tmp_path)

    assert [run.id for run in (recorded.checked_run, recorded.measured_run, recorded.run)] == ["r2", "r3", "r3"]
    assert {name: run.id for name, run in recorded.earlier.items()} == {"attention/chunked": "r1"}


def test_without_rows_of_a_kind_it_has_no_run(tmp_path):
    record(tmp_path, RUN)
    assert (read(tmp_path).checked_run, read(tmp_path).measured_run, read(tmp_path).earlier) == (None, None, {})

    record(tmp_path, RUN, measurement())
    assert (read(tmp_path).checked_run, read(tmp_path).earlier) == (None, {})
    assert Recorded("m", {}, ()).measured_run is None
