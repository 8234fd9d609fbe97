"""Counts of outcomes, and groups of failures."""

import pytest
from builders import outcome

from attnsuite.report.tally import MOST_GROUPS, count, groups, pattern

UNSCALED = {"detail": "output[0] is -0.68, should be -0.69", "diagnosis": ("unscaled",)}


def test_unsupported_and_missing_tests_did_not_run():
    counts = count(
        [
            outcome("a"),
            outcome("b", "failed"),
            outcome("c", "timeout", known="f"),
            outcome("d", "unsupported"),
            outcome("e", "missing"),
        ]
    )

    assert (counts.passed, counts.run, counts.failures, counts.known) == (1, 3, 1, 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("output[1, 1, 0, 1] is -0.684341, should be -0.684652", "output[0] is 1.2e+3, should be nan"),
        ("RuntimeError: size 3 at 0x7f00aa", "RuntimeError: size 44 at 0x01"),
        ("has shape (1, 2), should", "has shape (1, 2, 3, 4), should"),
        ("is inf", "is -inf"),
    ],
)
def test_details_of_one_kind_have_one_pattern(one, other):
    assert pattern(one) == pattern(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('equals "unscaled": a', 'equals "untied": a'),
        ("is information", "is nano"),
        ("gradient of query is 1", "gradient of key is 1"),
    ],
)
def test_details_of_two_kinds_have_two_patterns(one, other):
    assert pattern(one) != pattern(other)


def test_one_kind_more_than_are_shown_is_shown_too():
    kinds = [
        outcome(f"case/{letter}", "error", detail=f"Error: {letter}") for letter in "abcdefghijklm"[: MOST_GROUPS + 1]
    ]

    found = groups(kinds)

    assert [group.others for group in found] == [0] * (MOST_GROUPS + 1)


def test_a_submission_whose_messages_all_differ_cannot_fill_the_page():
    def word(number):
        return "".join(chr(97 + int(digit)) for digit in str(number))

    noisy = [outcome(f"case/{number}", "error", detail=f"Error: {word(number)}") for number in range(500)]

    found = groups(noisy)

    assert len(found) == MOST_GROUPS + 1
    assert (found[-1].count, found[-1].others) == (500 - MOST_GROUPS, 500 - MOST_GROUPS)
    assert sum(group.count for group in found) == 500


def test_an_unregistered_implementation_is_run_again_by_its_target():
    again = {"attention/loops": ["my loops.py:f", "--contract", "attention"]}

    (group,) = groups([outcome("c", "failed", device="cuda:1")], again)

    command = "attnsuite check 'my loops.py:f' --contract attention --case c --dtype float32 --device cuda:1"
    assert group.rerun == command


def test_a_failure_without_a_diagnosis_joins_the_group_of_its_case_in_another_dtype():
    halves = ("float16", "bfloat16")
    outcomes = [
        outcome("a", "failed", **UNSCALED, dtype="float64"),
        outcome("a", "failed", detail="output[0] is 1, should be 2"),
        *(outcome("a", "failed", detail=f"output[{place}] is 3, should be 5", dtype=halves[place]) for place in (0, 1)),
        outcome("a", "error", detail="ValueError", dtype="bfloat16"),
        outcome("b", "failed", detail="output[0] is 3, should be 5", dtype="bfloat16"),
    ]

    found = [(group.count, group.example.detail, group.example.dtype) for group in groups(outcomes)]

    assert found == [
        (4, UNSCALED["detail"], "float64"),
        (1, "ValueError", "bfloat16"),
        (1, "output[0] is 3, should be 5", "bfloat16"),
    ]


def test_groups_with_a_diagnosis_come_first():
    unnamed = [outcome(f"a/{place}", "failed", detail="output[0] is 3, should be 5") for place in range(3)]

    first, second = groups([*unnamed, outcome("b", "failed", **UNSCALED)])

    assert (first.count, first.example.detail) == (1, UNSCALED["detail"])
    assert second.count == 3


def test_failures_with_the_same_diagnosis_are_one_group():
    one, other = ({"detail": detail, "diagnosis": ("a", "b")} for detail in ("output[0] is 1", "the gradient is nan"))
    outcomes = [outcome("x", "failed", **one), outcome("y", "failed", **other), outcome("z", "failed", **UNSCALED)]

    assert [group.count for group in groups(outcomes)] == [2, 1]


def test_the_example_of_a_group_is_its_simplest_case():
    failing = [
        outcome("combined/many_heads+e576+dropout", "failed", **UNSCALED),
        outcome("dropout/all_but_one_causal", "failed", **UNSCALED),
        outcome("dropout/one_causal", "failed", **UNSCALED),
        outcome("plain/small", "failed", **UNSCALED),
    ]

    assert groups(failing)[0].example.case == "plain/small"
    assert groups(failing[:3])[0].example.case == "dropout/one_causal"
    assert groups(failing[:1])[0].example.case == "combined/many_heads+e576+dropout"
