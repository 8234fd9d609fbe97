"""What failing tests share is reported where it alone separates them from passing ones, or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from attnsuite.cases.case import HOW, Traits
from attnsuite.conformance.shared_features import FeatureTest, where_failing

CAUSAL: Traits = {"causal": ("is_causal",)}
WIDE: Traits = {"width": ("a width above 64", "a width above 8")}
LESS_WIDE: Traits = {"width": ("a width above 8",)}
BACKWARD: Traits = {HOW: ("backward",)}


def says(failing: Sequence[Traits], passing: Sequence[Traits]) -> str:
    traits = [*((each, True) for each in failing), *((each, False) for each in passing)]
    return where_failing([FeatureTest(f"case/{n}", each, failed) for n, (each, failed) in enumerate(traits)]).says


@pytest.mark.parametrize(
    ("failing", "passing", "rule"),
    [
        ([CAUSAL | WIDE] * 2, [WIDE, BACKWARD], "with is_causal"),
        ([CAUSAL | WIDE] * 4, [CAUSAL | LESS_WIDE, WIDE, {}] * 2, "where is_causal and a width above 64 meet"),
        ([CAUSAL | BACKWARD] * 3, [CAUSAL, BACKWARD] * 2, "with is_causal, backward"),
    ],
    ids=["one feature", "two that meet", "an adverb"],
)
def test_the_fewest_features_that_separate_are_reported(
    failing: list[Traits], passing: list[Traits], rule: str
) -> None:
    assert says(failing, passing) == f"failed only {rule}"


@pytest.mark.parametrize(
    ("failing", "passing"),
    [
        pytest.param([CAUSAL] * 4, [*[CAUSAL] * 3, *[{}] * 40], id="nearly as many pass with the feature"),
        pytest.param([CAUSAL | WIDE] * 40, [CAUSAL | WIDE, *[{}] * 40], id="two features are as rare"),
        pytest.param([CAUSAL | BACKWARD] * 4, [{}] * 4, id="two features separate alike"),
        pytest.param([CAUSAL | WIDE | BACKWARD] * 5, [CAUSAL, WIDE, BACKWARD] * 2, id="three pairs separate alike"),
        pytest.param([CAUSAL] * 42, [{}] * 4, id="too few pass"),
        pytest.param([CAUSAL] * 3, [{}], id="one case alone passes"),
        pytest.param([CAUSAL, WIDE], [{}, {}], id="nothing is common"),
        pytest.param([CAUSAL] * 4, [], id="nothing passes"),
        pytest.param([], [CAUSAL] * 4, id="nothing fails"),
        pytest.param([CAUSAL | WIDE] * 2, [CAUSAL, WIDE], id="two cases are too few for two features"),
        pytest.param([CAUSAL], [{}, {}], id="one case is too few for one"),
        pytest.param([CAUSAL | WIDE] * 4, [CAUSAL, WIDE, WIDE], id="one passing case alone has the other feature"),
        pytest.param([{}] * 4, [CAUSAL] * 4, id="unknown features"),
    ],
)
def test_no_sentence_where_a_feature_could_mislead(failing: list[Traits], passing: list[Traits]) -> None:
    assert says(failing, passing) == ""


def test_two_features_of_one_size_may_meet() -> None:
    above, ragged = "a width above 16", "a width that 16 does not divide"
    passing: list[Traits] = [{"width": (above,)}, {"width": (ragged,)}, {}] * 3
    assert says([{"width": (above, ragged)}] * 4, passing) == f"failed only where {above} and {ragged} meet"


def test_many_heads_are_many_matrices_and_no_other_cause() -> None:
    heads, items = ("more than 1 heads",), ("more than 1 batch items",)
    many: Traits = {"matrices": ("more than 1 batch items times heads",)}

    assert says([many | {"heads": heads}] * 4, [many, {}, {}]) == "failed only with more than 1 heads"
    assert says([many | {"heads": heads, "batch": items}] * 4, [many, {}, {}]) == ""


def test_a_feature_that_few_passing_tests_have_is_a_count_and_no_cause() -> None:
    rule = "failed in 42 of 43 tests with is_causal, in no other"
    assert says([CAUSAL] * 42, [CAUSAL, *[{}] * 40]) == rule


def test_a_case_counts_once_however_many_dtypes_it_has() -> None:
    failing = [FeatureTest("case/one", CAUSAL, failed=True)] * 4
    passing = [FeatureTest(f"case/{n}", {}, failed=False) for n in range(4)]

    assert where_failing([*failing, *passing]).says == ""


def test_a_case_in_two_dtypes_is_one_passing_case_that_lacks_a_feature() -> None:
    failing = [FeatureTest(f"case/{n}", CAUSAL | WIDE, failed=True) for n in range(4)]
    others = [FeatureTest(f"other/{n}", each, failed=False) for n, each in enumerate([WIDE] * 2 + [{}] * 4)]
    causal = [FeatureTest(f"causal/{n}", CAUSAL, failed=False) for n in range(2)]

    assert where_failing([*failing, *others, *causal]).says == "failed only where is_causal and a width above 64 meet"
    assert where_failing([*failing, *others, causal[0], causal[0]]).says == ""


# Thresholds


def threshold(failing: Sequence[Mapping[str, int]], passing: Sequence[Mapping[str, int]], status: str) -> str:
    sizes = [*((each, True) for each in failing), *((each, False) for each in passing)]
    tests = [FeatureTest(f"case/{n}", {}, failed, each) for n, (each, failed) in enumerate(sizes)]
    return where_failing(tests, status).says


def keys(*numbers: int) -> list[Mapping[str, int]]:
    return [{"keys": number, "queries": 5, "width": 8} for number in numbers]


def test_the_largest_size_that_passes_and_the_smallest_that_fails() -> None:
    widths = [[{"width": width} for width in widths] for widths in ((65, 128), (8, 64))]

    assert threshold(keys(33, 47, 65), keys(1, 7, 32), "failed") == "right up to 32 keys, failed from 33 on"
    assert threshold(*widths, "raised") == "right up to a width of 64, raised from 65 on"


@pytest.mark.parametrize(
    ("failing", "passing"),
    [
        ([], keys(1, 2)),
        (keys(33, 34), []),
        (keys(33, 34), keys(7, 7)),
        (keys(33, 33), keys(7, 8)),
        (keys(33, 47, 65), keys(1, 7, 32, 64)),
        (keys(*range(2, 42)), keys(0, 1)),
        ([{}, {}], keys(7, 8)),
        ([{"keys": n, "queries": n} for n in (33, 34)], [{"keys": n, "queries": n} for n in (7, 8)]),
    ],
    ids=["no failure", "no pass", "one size passes", "one size fails", "mixed", "few pass", "unknown", "two sizes"],
)
def test_no_threshold(failing: Sequence[Mapping[str, int]], passing: Sequence[Mapping[str, int]]) -> None:
    assert threshold(failing, passing, "failed") == ""
