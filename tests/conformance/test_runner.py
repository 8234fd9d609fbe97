"""Rules that need more than one outcome: findings, resuming, and questions that are kept."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from checks import CASES, about, check, counted, only, refuse
from msgspec.structs import replace
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attnsuite.conformance import findings
from attnsuite.conformance.questions import Questions
from attnsuite.contracts.attention.contract import CONTRACT

# Findings


def finding(**fields: Any) -> findings.Finding:
    usual = {
        "id": "one-key", "implementations": ("attention/mine",), "cases": ("behaviour/one_key_one_query",),
        "versions": {}, "says": "", "judgement": "", "reproduction": "",
    }  # fmt: skip
    return findings.Finding(**usual | fields)


def test_a_known_failure_stays_wrong_and_does_not_fail_the_run() -> None:
    outcome = only(check(lambda query, key, value: value, "behaviour/one_key_one_query", found=[finding()]))

    assert (outcome.status, outcome.known, outcome.fails) == ("wrong", "one-key", False)


def test_a_finding_that_no_longer_fails_is_wrong() -> None:
    outcomes = check(sdpa, "behaviour/one_key_one_query", dtypes=(), found=[finding()])

    assert about(outcomes) == {
        "finding/one-key": "the finding says these fail, but they pass: behaviour/one_key_one_query (bfloat16), "
        "behaviour/one_key_one_query (float16), behaviour/one_key_one_query (float32) and 1 more; remove or narrow it"
    }
    assert outcomes[-1].fails


@pytest.mark.parametrize("other", [{"cases": ("causal/*",)}, {"implementations": ("attention/other",)}])
def test_a_finding_about_what_was_not_asked_says_nothing(other: dict[str, Any]) -> None:
    assert about(check(sdpa, "plain/small", found=[finding(**other)])) == {}


def test_a_finding_covers_what_is_declined_without_complaint() -> None:
    outcomes = check(partial(refuse, "no"), "causal/square_5", parameters=None, found=[finding(cases=("causal/*",))])

    assert only(outcomes).status == "declined"


# Resuming


def test_a_resumed_check_asks_only_what_is_missing() -> None:
    whole = check(sdpa, "plain")
    function, asked = counted(sdpa)

    rest = check(function, "plain", parameters=None, earlier=whole[2:])

    assert [outcome.case for outcome in rest] == [outcome.case for outcome in whole[:2]]
    assert len(asked) == 2


def test_nothing_is_asked_when_all_is_known() -> None:
    function, asked = counted(sdpa)

    assert check(function, "plain", parameters=None, earlier=check(sdpa, "plain")) == []
    assert asked == []


@pytest.mark.parametrize(
    "other", [{"implementation": "attention/other"}, {"device": "cuda"}, {"dtype": "float16"}, {"case": "plain/large"}]
)
def test_what_is_known_of_something_else_is_asked(other: dict[str, str]) -> None:
    earlier = [replace(outcome, **other) for outcome in check(sdpa, "plain/small")]

    assert only(check(sdpa, "plain/small", earlier=earlier)).status == "passed"


def test_a_resumed_check_still_sees_findings_that_no_longer_hold() -> None:
    earlier = check(sdpa, "behaviour/one_key_one_query")

    outcomes = check(sdpa, "behaviour/one_key_one_query", found=[finding()], earlier=earlier)

    assert list(about(outcomes)) == ["finding/one-key"]


# Questions


def test_questions_are_kept_only_for_several_implementations() -> None:
    case = CASES["plain/small"]
    kept, fresh = Questions(CONTRACT, keep=True), Questions(CONTRACT, keep=False)

    assert kept.question(case, "float32", {}) is kept.question(case, "float32", {})
    assert fresh.question(case, "float32", {}) is not fresh.question(case, "float32", {})


def test_each_convention_has_its_own_truth() -> None:
    questions = Questions(CONTRACT, keep=True)
    case = CASES["causal/more_keys"]

    usual, other = (questions.question(case, "float32", given) for given in ({}, {"causal": "lower_right"}))

    assert usual is not other
    assert (usual.truth[0].numbers != other.truth[0].numbers).any()
