"""A re-run changes only what changed, whatever the order in which answers come, and results/ stay small."""

import random

import pytest
from msgspec.structs import replace
from stored import RUN, folder, measurement, names, outcome, read, record, table

DTYPES = ("float64", "float32", "float16", "bfloat16")


def outcomes(seconds, name="attention/loops", but=None):
    """What is found of an implementation: many cases in four dtypes, each in its time."""
    found = {
        each.key: each
        for family in ("keys", "masks")
        for number in range(30)
        for dtype in DTYPES
        for each in [
            outcome(f"{family}/{number}", name=name, dtype=dtype, error_ratio=number / 7, seconds=seconds * number)
        ]
    }
    for dtype in DTYPES:
        declined = outcome("window/left", "declined", name, dtype=dtype, detail="takes no window")
        found[declined.key] = declined
    if but:
        found[but.key] = but
    return list(found.values())


def lines_changed(before, after):
    before, after = before.splitlines(), after.splitlines()
    return len([line for line in before if line not in after]) + len([line for line in after if line not in before])


def contents(results):
    return {name: (folder(results) / name).read_bytes() for name in names(results)}


def test_a_run_that_finds_the_same_changes_its_own_row_and_the_times_alone(tmp_path):
    record(tmp_path, RUN, *outcomes(0.1), whole=["attention/loops"])
    before = contents(tmp_path)

    record(tmp_path, replace(RUN, id="r2", started="2026-02-02"), *outcomes(0.2), whole=["attention/loops"])

    after = contents(tmp_path)
    assert {name for name in before if before[name] != after[name]} == {"runs.jsonl", "conformance.seconds.gz"}
    assert lines_changed(before["runs.jsonl"], after["runs.jsonl"]) == 2


def test_a_run_of_one_implementation_changes_two_runs(tmp_path):
    both = [*outcomes(0.1), *outcomes(0.1, "attention/matmul")]
    record(tmp_path, RUN, *both)
    before = contents(tmp_path)

    record(tmp_path, replace(RUN, id="r2"), *outcomes(0.1), whole=["attention/loops"])

    after = contents(tmp_path)
    assert {name for name in before if before[name] != after[name]} == {"runs.jsonl"}
    assert lines_changed(before["runs.jsonl"], after["runs.jsonl"]) == 3


def test_one_answer_that_changed_changes_the_rows_that_it_is_in(tmp_path):
    record(tmp_path, RUN, *outcomes(0.1))
    before = contents(tmp_path)
    wrong = outcome("keys/5", "wrong", dtype="float16", detail="output is off", error_ratio=9.0, seconds=0.5)

    record(tmp_path, replace(RUN, id="r2"), *outcomes(0.1, but=wrong))

    after = contents(tmp_path)
    assert lines_changed(before["conformance.jsonl"], after["conformance.jsonl"]) == 4, "-1 +1, one of 3 dtypes, wrong"
    assert (
        b'"status": "wrong", "detail": "output is off", "dtypes": ["float16"], "cases": ["keys/5"]'
        in after["conformance.jsonl"]
    )


def test_the_order_in_which_answers_come_does_not_matter(tmp_path):
    rows = [*outcomes(0.1), *outcomes(0.1, "attention/matmul"), *(measurement(f"ladder/{n}") for n in range(9))]
    record(tmp_path / "one", RUN, *rows)
    random.Random(1).shuffle(rows)
    record(tmp_path / "two", RUN, *rows)

    one, two = contents(tmp_path / "one"), contents(tmp_path / "two")
    assert {name for name in one if one[name] != two[name]} <= {"runs.jsonl"}, "but for the second of its end"


def test_the_rows_of_a_part_come_back_in_the_order_of_the_whole(tmp_path):
    record(tmp_path, RUN, *outcomes(0.1))
    whole = read(tmp_path).outcomes

    record(tmp_path, replace(RUN, id="r2"), *random.Random(2).sample(outcomes(0.1), 40))

    assert read(tmp_path).outcomes == whole
    assert {run for run, _ in read(tmp_path).rows} == {"r1", "r2"}


@pytest.mark.parametrize("count", [1, 40])
def test_an_outcome_takes_few_bytes(tmp_path, count):
    record(tmp_path, RUN, *(each for n in range(count) for each in outcomes(0.1, f"attention/implementation_{n}")))

    size = sum(len(content) for content in contents(tmp_path).values()) - len(contents(tmp_path)["runs.jsonl"])
    assert len(read(tmp_path).outcomes) == 244 * count
    assert size < 20 * 244 * count, "it was some 280 each when each had a row"
    assert len(table(tmp_path).read_text().splitlines()) == 3 * count
