"""A size from which tests fail is reported with the largest size that passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from attnsuite.conformance.diagnosis.separation import Asked
from attnsuite.conformance.diagnosis.threshold import MOST_RIGHT, threshold


def asked_at(failing: Sequence[Mapping[str, int]], right: Sequence[Mapping[str, int]]) -> list[Asked]:
    sizes = [*((each, True) for each in failing), *((each, False) for each in right)]
    return [Asked(f"case/{number}", {}, failed, each) for number, (each, failed) in enumerate(sizes)]


def keys(*numbers: int) -> list[Mapping[str, int]]:
    return [{"keys": number, "queries": 5, "width": 8} for number in numbers]


def test_the_largest_size_that_passes_and_the_smallest_that_fails() -> None:
    assert threshold(asked_at(keys(33, 47, 65), keys(1, 7, 32))) == "right up to 32 keys, wrong from 33 on"


def test_a_width_is_one_size() -> None:
    failing, right = ([{"width": width} for width in widths] for widths in ((65, 128), (8, 64)))

    assert threshold(asked_at(failing, right), "raised") == "right up to a width of 64, raised from 65 on"


def test_some_tests_may_pass_above_the_threshold_if_that_is_said() -> None:
    tests = asked_at(keys(33, 47, 65), keys(1, 7, 32, 64))

    assert threshold(tests) == ""
    assert threshold(tests, most_right=MOST_RIGHT) == "right up to 32 keys, wrong in 3 of 4 tests from 33 on"


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
    assert threshold(asked_at(failing, right), most_right=MOST_RIGHT) == ""
