"""`verify` of rows that contradict themselves, each other or their run, though digests and ranges are right."""

import math
from dataclasses import replace

import pytest
from honest import CEILINGS, FACTS, HONEST, WORK, claim, refusals, timed, trained
from stored import folder, measurement, outcome, record

from attnsuite.model import ContractFacts, Evidence, Holds, Reason
from attnsuite.model.bounded import NOT_BOUNDED
from attnsuite.results.store import due_ranges, read_outcomes, siblings, verify

BUSY = "the machine was busy (load 14 on 2 cores)"
OUTCOMES = [
    (outcome("a", error_ratio=50.0, seconds=0.1), "it passed, and its error_ratio is 50, above 1"),
    (outcome("a", error_ratio=0.5), "it passed, and has no seconds"),
    (outcome("a", seconds=0.1, known="pt-1"), "it is passed, and known as pt-1"),
    (outcome("a", seconds=0.1, diagnosis=("unscaled",)), "it is passed, and has a diagnosis"),
    (outcome("a", seconds=0.1, reason=Reason.LACKING), "it is passed, and its reason is lacking"),
    (outcome("a", seconds=0.1, dtype="*"), "it is passed, and about no case in a dtype"),
    (outcome("a", "wrong"), "it is wrong, and does not say why"),
    (outcome("a", "raised"), "it is raised, and does not say why"),
    (outcome("a", "hung", detail="hung", error_ratio=0.5), "it is hung, and has an error_ratio"),
    (outcome("a", "wrong", detail="other", diagnosis=("unscaled",)), "its diagnosis is unscaled, which its detail"),
    (outcome("a", "raised", detail="x", reason=Reason.UNTAKEN), "it is raised, and its reason is untaken"),
    (outcome("a", "declined", detail="because", reason=Reason.UNTAKEN), "it declines what it has no parameter for"),
    (outcome("a", "declined", detail="lacks x: y", reason=Reason.LACKING), "its run notes no such gap"),
    (outcome("a", "declined", detail="lacks causal: y", reason=Reason.LACKING), "for want of causal, which the case"),
    (outcome("b", seconds=0.1), "it passed, and its run notes that it lacks causal, which the case needs"),
    (outcome("a", "missing", detail="No module"), "it is missing, and about a alone"),
    (outcome("*", "missing", detail="No module"), "it is about every case in float32 alone"),
    (replace(outcome("a", seconds=0.1), contract="softmax"), "the contract is 'softmax', and attention/loops is of"),
]
TIMES = [
    (timed(error_ratio=50.0), "it is measured, and its error_ratio is 50, above 1"),
    (timed(error_ratio=None), "no error_ratio says that its answer was looked at"),
    (timed(work={"attended": 1e6, "bytes": 1e6}), "it is measured, and has no work.convention"),
    (timed(work={}), "it is measured, and has no work.attended"),
    (timed(stopped=""), "stopped is '', not one of narrow, budget"),
    (timed(first_call=None), "it is measured, and has no first_call"),
    (timed(known="pt-1"), "it is measured, and known as pt-1"),
    (timed(reason=Reason.TOO_SLOW), "it is measured, and its reason is too_slow"),
    (timed(threads=0), "threads is 0, on cpu"),
    (timed(device="cuda"), "threads is 1, on cuda"),
    (timed(making={"factory": 1.0}), "it has making, and nothing is made of attention"),
    (timed(telemetry={"power": 3.0}), "it has telemetry, which only a GPU gives"),
    (timed(relative_error={"largest": 0.1, "rms": 0.2}), "relative_error.rms is above"),
    (timed(own_clock=25.0), "own_clock is 25, and the detail does not say that this time is not bounded"),
    (timed(own_clock=1.2), "own_clock is 1.2, and the detail does not say"),
    (
        timed(own_clock=1.2, detail=f"{NOT_BOUNDED}: its samples took 25.00 times as long"),
        "own_clock is 1.2, and the detail says that its samples took 25.00 times as long",
    ),
    (timed(dtype="int4"), "dtype is 'int4'"),
    (measurement(status="raised"), "it is raised, and does not say why"),
    (measurement(status="raised", detail="x", calls=3), "it is raised, and has calls"),
    (measurement(status="declined", detail="x", own_clock=1.0), "it is declined, and has own_clock"),
    (measurement(status="declined", detail="x", work=WORK), "it is declined, and has work"),
    (measurement(status="raised", detail="x", error_ratio=2.0), "it is raised, and has an error_ratio"),
    (measurement(status="raised", detail="x", reason=Reason.TOO_SLOW), "it is raised, and its reason is too_slow"),
    (measurement("*", status="missing", detail="x"), "it is about every workload, and not about every other"),
]
LENIENT = [
    (outcome("a", "wrong", detail="x", reason=Reason.LENIENT), "its reason is lenient, and it is a"),
    (outcome("bad_input/a", "wrong", detail="x", reason=Reason.LENIENT, known="pt-1"), "it is pt-1"),
    (outcome("bad_input/a", "died", detail="x", reason=Reason.LENIENT), "it is died, and its reason is lenient"),
]
TRAINED = [
    (trained(scores={"accuracy held out": 1.5}), "scores.accuracy held out is 1.5, not between 0 and 1"),
    (trained(scores={"BLEU": -0.5}), "scores.BLEU is -0.5, not between 0 and 1"),
    (trained(beside={"chance": 2.0}), "beside.chance is 2, not between 0 and 1"),
    (trained(printed={"BLEU": 0.5}), "printed.BLEU is no score that it has"),
    (trained(scores={}), "it has no scores"),
    (trained(curve=(2.0, -1.0)), "a loss is -1, below 0"),
]
CLAIMED = [
    (claim(5.0, 5.0, 5.0), "it holds, where at most 3 is due, and its value is 5"),
    (claim(2.0, 2.0, 2.0, holds=Holds.DOES_NOT), "it does not hold, where at most 3 is due, and its value is 2"),
    (claim(2.0, 2.0, 2.0, holds=Holds.UNCLEAR), "it unclear, where at most 3 is due"),
    (claim(2.0, 2.0, 2.0, samples=(2.0, 2.0)), "it is exact, and has samples"),
    (claim(None, None, None, holds=Holds.RAISED), "it raised, and does not say why"),
    (replace(claim(2.0, 2.0, 2.0), due="whatever"), "it is due 'whatever', which is no range"),
    (replace(claim(2.0, 2.0, 2.0), implementation="claims/u"), "t/a is counted by claims/u, not by claims/t"),
]
NOTED = replace(
    FACTS,
    contracts={
        "attention": ContractFacts(
            cases={"a": ("float32",), "b": ("causal", "float32"), "bad_input/a": ("float32",)}, baseline="loops"
        )
    },
    gaps={"attention/loops": {"causal": "no order"}},
)


@pytest.mark.parametrize(
    ("row", "says"),
    [*OUTCOMES, *LENIENT, *TIMES, *TRAINED, *CLAIMED],
    ids=lambda of: of[:60] if isinstance(of, str) else type(of).__name__,
)
def test_a_row_that_contradicts_itself_is_refused_with_its_place(tmp_path, row, says):
    record(tmp_path, replace(HONEST, facts=NOTED), row)

    said = refusals(tmp_path)

    assert any(says in each and ".jsonl, line 1: " in each for each in said), said


@pytest.mark.parametrize(
    "row",
    [
        outcome("a", error_ratio=1.0, seconds=0.1),
        outcome("bad_input/a", "wrong", detail="accepted", reason=Reason.LENIENT, seconds=0.1),
        outcome("a", "wrong", detail='equals "unscaled": y', diagnosis=("unscaled",), error_ratio=5.0, seconds=0.1),
        outcome("b", "declined", detail="lacks causal: no order", reason=Reason.LACKING),
        outcome("a", "declined", detail="takes no scale", reason=Reason.UNTAKEN),
        timed(own_clock=1.09),
        timed(own_clock=1.4, seconds=(1e-4, 1e-4), work=dict.fromkeys(WORK, 1e3)),
        timed(own_clock=1.2, detail=f"{NOT_BOUNDED}: its samples took 1.20 times as long"),
        timed(own_clock=2.44, detail=f"{NOT_BOUNDED}: {BUSY}: calls on new numbers took 2.44 times as long"),
        timed(direction="backward", detail=f"{NOT_BOUNDED}: its forward lies between its calls"),
        measurement(status="refused", detail="it fails a", error_ratio=3.0, known="pt-1"),
        measurement(status="declined", detail="too slow to time here: 9 s", reason=Reason.TOO_SLOW),
        trained(scores={"perplexity": 9.0}, beside={"chance": 30.0}),
        claim(5.0, 5.0, 5.0, holds=Holds.DOES_NOT),
        claim(2.0, -math.inf, math.inf, evidence=Evidence.DRAWN, holds=Holds.UNCLEAR, samples=(2.0,)),
        claim(2.99999, 2.99999, 2.99999),
    ],
    ids=str,
)
def test_what_runs_write_contradicts_nothing(tmp_path, row):
    record(tmp_path, replace(HONEST, facts=NOTED), row)

    assert refusals(tmp_path) == []


@pytest.mark.parametrize("is_model", [True, False])
def test_a_model_that_promises_no_limit_of_its_errors_may_pass_with_any(tmp_path, is_model):
    contracts = {name: replace(of, is_model=is_model) for name, of in NOTED.contracts.items()}
    facts = replace(NOTED, contracts=contracts, conventions={"attention/loops": {"accuracy": "measured"}})
    record(tmp_path, replace(HONEST, facts=facts), outcome("a", error_ratio=50.0, seconds=0.1), timed(error_ratio=50.0))

    said = refusals(tmp_path)

    assert [each.endswith("its error_ratio is 50, above 1") for each in said] == ([] if is_model else [True, True])


@pytest.mark.parametrize(
    ("due", "inside", "outside"),
    [
        ("nearest to 2", 1.6, 2.6),
        ("nearest to -1", -1.194, -2.0),
        ("at most 1e-06", 1e-7, 1.1e-6),
        ("at least 1,000", 1469.77, 900.0),
        ("above 0", 3.7e-44, 0.0),
        ("above 1.03", 1.1, 1.02),
        ("1.11111 ± 1e-06", 1.11111, 1.12),
        ("0.9 to 1.1", 1.0, 1.2),
        ("−0.1 to 0.1", -0.05, -0.2),
        ("0", 0.0, 8.0),
        ("64", 64.0, 65.0),
    ],
)
def test_the_words_of_a_range_say_what_holds(due, inside, outside):
    read = due_ranges.read(due)
    assert read is not None
    for value, holds in ((inside, Holds.HOLDS), (outside, Holds.DOES_NOT)):
        of = replace(claim(value, value, value, holds=holds), due=due)
        other = Holds.DOES_NOT if holds == Holds.HOLDS else Holds.HOLDS
        assert due_ranges.unlike(read, of) == ""
        assert due_ranges.unlike(read, replace(of, holds=other)) != ""


def test_the_ranges_of_all_claims_can_be_read_from_their_words():
    from attnsuite.documents.claims import every

    for each in every():
        due = due_ranges.read(each.due.words)
        assert due is not None, each.due.words
        for end, read, off in ((each.due.low, due.low, due.low_off), (each.due.high, due.high, due.high_off)):
            assert math.isinf(read) or math.isclose(end, read, rel_tol=1e-5, abs_tol=off + 1e-5), each.name


OTHERS = [
    (timed(dtype="float32"), "ceilings.flops is 2e+09, and 1e+09 in line 1, which is of its table as well",
     {"ceilings": CEILINGS | {"flops": 2e9}}),
    (timed(), "ceilings.bytes is not there, and 1e+09 in line 1", {"ceilings": {}}),
    (timed(), "work.attended is 100000, and 1e+06 in line 1, which is of this workload as well",
     {"work": WORK | {"attended": 1e5}}),
    (timed(own_clock=1.0), "it has no own_clock, and other times of its run have one", {}),
]  # fmt: skip


@pytest.mark.parametrize(("first", "says", "changed"), OTHERS, ids=lambda of: of[:40] if isinstance(of, str) else "")
def test_rows_that_cannot_be_beside_each_other_are_refused(tmp_path, first, says, changed):
    run = replace(HONEST, sources=dict.fromkeys(("attention/loops", "attention/matmul"), "0" * 12))
    record(tmp_path, run, first, timed(name="attention/matmul", **changed))

    assert any(each.startswith(f"benchmark.jsonl, line 2: {says}") for each in refusals(tmp_path)), refusals(tmp_path)


def test_work_by_other_conventions_is_other_work(tmp_path):
    run = replace(HONEST, sources=dict.fromkeys(("attention/loops", "attention/matmul"), "0" * 12))
    says = f"by the conventions that it declares it does 0.5 {siblings.OTHER_WORK}"
    record(tmp_path, run, timed(), timed(name="attention/matmul", work=WORK | {"attended": 5e5}, detail=says))

    assert refusals(tmp_path) == []


def test_trainings_of_one_task_in_one_run_had_one_config(tmp_path):
    other = replace(trained(config={"epochs": 2, "rate": 1.0}), seed=1)
    record(tmp_path, HONEST, trained(), other)

    assert any(each.startswith("learning.jsonl, line 2: config is not that of line 1") for each in refusals(tmp_path))


def half(attended, **others):
    """A call of half a second in bfloat16, whose product reaches 1e9 FLOPs per second."""
    return timed(dtype="bfloat16", work=WORK | {"attended": attended}, **others)


WIDE = timed(ceilings=CEILINGS | {"flops": 1e11})
"""A time in float32, in whose products the machine reaches a hundred times as much."""


def test_a_half_type_may_be_faster_than_its_own_products_where_float32_is(tmp_path):
    record(tmp_path, HONEST, half(1e10), WIDE)

    assert refusals(tmp_path) == []


def test_a_half_type_beyond_products_in_half_and_in_float32_is_refused(tmp_path):
    record(tmp_path, HONEST, half(1e12), WIDE)

    (said,) = refusals(tmp_path)
    assert "FLOPs per second are more than the 1e+11 of a matrix product in this run, in bfloat16 or float32" in said


def test_a_half_type_is_held_against_float32_of_other_runs_and_of_no_other_threads(tmp_path):
    record(tmp_path / "other", HONEST, WIDE)
    record(tmp_path / "other", replace(HONEST, id="r2", suite="2" * 12), half(1e11), half(1e12, direction="backward"))
    record(tmp_path / "alone", HONEST, half(1e12), replace(WIDE, threads=2))

    (said,) = refusals(tmp_path / "other")
    assert "more than the 1e+11 of a matrix product in an earlier run, in bfloat16 or float32" in said
    assert refusals(tmp_path / "alone") == []


def test_times_without_ceilings_are_named_as_not_checked(tmp_path):
    record(tmp_path, HONEST, timed(ceilings={}))

    found = verify(folder(tmp_path))

    assert found.refusals == ()
    assert found.not_checked == (
        f"the rates of 1 time of {folder(tmp_path)}, for nothing says what its machine reached",
    )
    assert read_outcomes(tmp_path)


PAIR = replace(HONEST, sources=dict.fromkeys(("attention/loops", "attention/matmul"), "0" * 12))
ANSWERS = (
    outcome("a", seconds=0.1),
    outcome("b", seconds=0.1),
    outcome("a", seconds=0.1, name="attention/matmul"),
    timed(),
    timed(direction="backward"),
    timed(name="attention/matmul"),
)
"""Of which two are lost."""


def test_an_answer_that_others_of_the_run_have_and_one_has_not_is_missed(tmp_path):
    record(tmp_path, PAIR, *ANSWERS)

    assert refusals(tmp_path) == [
        "conformance.jsonl: attention/matmul has no row of b float32, which others of the run r1 have",
        "benchmark.jsonl: attention/matmul has no row of ladder/1k float32 cpu 1 backward hot, "
        "which others of the run r1 have",
    ]


def test_a_sample_lacks_tests_and_no_measurement(tmp_path):
    facts = replace(PAIR.facts, sampled={"attention/matmul": 2})
    record(tmp_path, replace(PAIR, facts=facts), *ANSWERS)

    assert refusals(tmp_path) == [
        "benchmark.jsonl: attention/matmul has no row of ladder/1k float32 cpu 1 backward hot, "
        "which others of the run r1 have",
    ]


def test_an_answer_of_another_run_or_about_all_is_one(tmp_path):
    record(tmp_path, PAIR, *ANSWERS)
    later = replace(PAIR, id="r2", suite="2" * 12)
    record(tmp_path, later, outcome("b", seconds=0.1, name="attention/matmul"))
    record(tmp_path, replace(later, id="r3", suite="3" * 12), timed(name="attention/matmul", direction="backward"))

    assert refusals(tmp_path) == []


@pytest.mark.parametrize("changed", [{"shard": "1/2"}, {"asked": "check on cpu; what failed"}], ids=str)
def test_of_a_shard_and_of_what_failed_not_everybody_is_asked_the_same(tmp_path, changed):
    record(tmp_path, replace(PAIR, **changed), *ANSWERS)

    assert refusals(tmp_path) == []


def test_who_is_missing_has_one_row(tmp_path):
    missing = outcome("*", "missing", dtype="*", name="attention/matmul", detail="No module named 'x'")
    record(tmp_path, PAIR, *ANSWERS[:2], missing)

    assert refusals(tmp_path) == []
