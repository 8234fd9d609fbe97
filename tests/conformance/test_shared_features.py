"""What failing tests share is reported with the fewest features that separate, or a size, or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from attnsuite.cases.case import HOW, Traits
from attnsuite.conformance.shared_features import MAX_PASSING_ABOVE, FeatureTest, shared_features, threshold

CAUSAL: Traits = {"causal": ("is_causal",)}
WIDE: Traits = {"width": ("a width above 64", "a width above 8")}
LESS_WIDE: Traits = {"width": ("a width above 8",)}
BACKWARD: Traits = {HOW: ("backward",)}


def asked(failing: list[Traits], right: list[Traits]) -> list[FeatureTest]:
    traits = [*((each, True) for each in failing), *((each, False) for each in right)]
    return [FeatureTest(f"case/{number}", each, failed) for number, (each, failed) in enumerate(traits)]


def test_a_feature_of_most_passing_tests_is_not_reported() -> None:
    failing = [CAUSAL] * 42

    assert shared_features(asked(failing, [*[CAUSAL] * 10, {}])).says == ""
    said = "failed only with is_causal, in 42 of 47 such tests"
    assert shared_features(asked(failing, [*[CAUSAL] * 5, *[BACKWARD] * 9])).says == said


def test_a_feature_of_nearly_every_test_is_not_reported() -> None:
    failing = [CAUSAL] * 42

    assert shared_features(asked(failing, [{}] * 4)).says == "", "too few pass"
    assert shared_features(asked([CAUSAL] * 3, [{}])).says == "", "one case alone passes"


def test_one_trait_that_separates_is_enough() -> None:
    assert shared_features(asked([CAUSAL | WIDE] * 2, [WIDE, BACKWARD])).says == "failed only with is_causal"


def test_two_traits_meet_where_neither_separates_alone() -> None:
    failing, right = [CAUSAL | WIDE] * 4, [CAUSAL | LESS_WIDE, WIDE, {}]

    assert shared_features(asked(failing, right)).says == "failed only where is_causal and a width above 64 meet"


def test_a_feature_that_a_few_failing_tests_share_by_chance_is_not_joined() -> None:
    failing, right = [CAUSAL | WIDE] * 4, [CAUSAL | WIDE, *[WIDE] * 20, *[CAUSAL] * 3, *[BACKWARD] * 17]

    assert shared_features(asked(failing, right)).says == "failed only with is_causal, in 4 of 8 such tests"


def test_a_few_passing_tests_are_counted() -> None:
    failing, right = [CAUSAL | BACKWARD] * 20, [CAUSAL | BACKWARD, *[CAUSAL] * 12, *[BACKWARD] * 12]

    said = "failed only with is_causal, backward, in 20 of 21 such tests"
    assert shared_features(asked(failing, right)).says == said


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
    assert shared_features(asked(failing, right)).says == ""


def test_a_case_counts_once_however_many_dtypes_it_has() -> None:
    failing = [FeatureTest("case/one", CAUSAL | WIDE, failed=True)] * 4

    assert shared_features([*failing, FeatureTest("case/other", CAUSAL, failed=False)]).says == ""


# Thresholds


def asked_at(failing: Sequence[Mapping[str, int]], right: Sequence[Mapping[str, int]]) -> list[FeatureTest]:
    sizes = [*((each, True) for each in failing), *((each, False) for each in right)]
    return [FeatureTest(f"case/{number}", {}, failed, each) for number, (each, failed) in enumerate(sizes)]


def keys(*numbers: int) -> list[Mapping[str, int]]:
    return [{"keys": number, "queries": 5, "width": 8} for number in numbers]


def test_the_largest_size_that_passes_and_the_smallest_that_fails() -> None:
    assert threshold(asked_at(keys(33, 47, 65), keys(1, 7, 32))).says == "right up to 32 keys, failed from 33 on"


def test_a_width_is_one_size() -> None:
    failing, right = ([{"width": width} for width in widths] for widths in ((65, 128), (8, 64)))

    assert threshold(asked_at(failing, right), "error").says == "right up to a width of 64, error from 65 on"


def test_some_tests_may_pass_above_the_threshold() -> None:
    tests = asked_at(keys(33, 47, 65), keys(1, 7, 32, 64))

    assert threshold(tests).says == ""
    assert (
        threshold(tests, passing_share=MAX_PASSING_ABOVE).says
        == "right up to 32 keys, failed in 3 of 4 tests from 33 on"
    )


@pytest.mark.parametrize(
    ("failing", "right"),
    [
        ([], keys(1, 2)),
        (keys(33, 34), []),
        (keys(33, 34), keys(7, 7)),
        (keys(33, 33), keys(7, 8)),
        (keys(3, 34), keys(7, 8)),
        (keys(*range(2, 42)), keys(0, 1)),
        ([{}, {}], keys(7, 8)),
    ],
    ids=["no failure", "no pass", "one size passes", "one size fails", "mixed", "few pass", "unknown sizes"],
)
def test_no_threshold(failing: Sequence[Mapping[str, int]], right: Sequence[Mapping[str, int]]) -> None:
    assert threshold(asked_at(failing, right), passing_share=MAX_PASSING_ABOVE).says == ""
