"""Where an implementation fails is said with the fewest traits that separate, or not at all."""

from __future__ import annotations

import pytest

from attnsuite.cases.case import HOW, Traits
from attnsuite.conformance.diagnosis.separation import Asked, where

CAUSAL: Traits = {"causal": ("is_causal",)}
WIDE: Traits = {"width": ("a width above 64", "a width above 8")}
LESS_WIDE: Traits = {"width": ("a width above 8",)}
BACKWARD: Traits = {HOW: ("backward",)}


def asked(failing: list[Traits], right: list[Traits]) -> list[Asked]:
    traits = [*((each, True) for each in failing), *((each, False) for each in right)]
    return [Asked(f"case/{number}", each, failed) for number, (each, failed) in enumerate(traits)]


def test_a_trait_that_most_right_questions_have_is_not_said() -> None:
    failing = [CAUSAL] * 42

    assert where(asked(failing, [*[CAUSAL] * 10, {}])) == ""
    said = "wrong only with is_causal, in 42 of 47 such tests"
    assert where(asked(failing, [*[CAUSAL] * 5, *[BACKWARD] * 9])) == said


def test_a_trait_that_nearly_every_test_has_is_not_said() -> None:
    failing = [CAUSAL] * 42

    assert where(asked(failing, [{}] * 4)) == "", "too few pass"
    assert where(asked([CAUSAL] * 3, [{}])) == "", "one case alone passes"


def test_one_trait_that_separates_is_enough() -> None:
    assert where(asked([CAUSAL | WIDE] * 2, [WIDE, BACKWARD])) == "wrong only with is_causal"


def test_two_traits_meet_where_neither_separates_alone() -> None:
    failing, right = [CAUSAL | WIDE] * 4, [CAUSAL | LESS_WIDE, WIDE, {}]

    assert where(asked(failing, right)) == "wrong only where is_causal and a width above 64 meet"


def test_how_it_is_asked_comes_last() -> None:
    failing = [CAUSAL | WIDE | BACKWARD] * 6
    right = [CAUSAL | WIDE, CAUSAL | BACKWARD, WIDE | BACKWARD, {}]

    assert where(asked(failing, right)) == "wrong only where is_causal and a width above 64 meet, backward"


def test_a_few_right_ones_are_said() -> None:
    failing, right = [CAUSAL | BACKWARD] * 20, [CAUSAL | BACKWARD, *[CAUSAL] * 12, *[BACKWARD] * 12]

    said = "wrong only with is_causal, backward, in 20 of 21 such tests"
    assert where(asked(failing, right)) == said


@pytest.mark.parametrize(
    ("failing", "right"),
    [
        pytest.param([CAUSAL] * 4, [CAUSAL] * 4, id="nothing separates"),
        pytest.param([CAUSAL, WIDE], [{}], id="nothing is common"),
        pytest.param([CAUSAL] * 4, [], id="nothing is right"),
        pytest.param([], [CAUSAL] * 4, id="nothing fails"),
        pytest.param([CAUSAL | WIDE] * 2, [CAUSAL, WIDE], id="two cases are too few for two traits"),
        pytest.param([CAUSAL], [{}], id="one case is too few for one"),
        pytest.param([{}] * 4, [CAUSAL], id="cases whose traits nobody knows"),
    ],
)
def test_no_sentence_where_nothing_is_known(failing: list[Traits], right: list[Traits]) -> None:
    assert where(asked(failing, right)) == ""


def test_a_case_counts_once_however_many_dtypes_it_has() -> None:
    failing = [Asked("case/one", CAUSAL | WIDE, failed=True)] * 4

    assert where([*failing, Asked("case/other", CAUSAL, failed=False)]) == ""
