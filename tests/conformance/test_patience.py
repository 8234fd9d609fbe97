"""When nothing more is asked of whoever does not answer."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from attnsuite.conformance.patience import HUNG_ALTOGETHER, HUNG_IN_A_ROW, Patience
from attnsuite.model import Outcome, Reason, Status
from attnsuite.model.limits import TIME_LIMIT


def left(statuses: Iterable[str], time_limit: float = TIME_LIMIT, reason: Reason = Reason.NONE) -> Patience:
    """What is left of it after outcomes of these statuses."""
    patience = Patience(time_limit)
    for status in statuses:
        outcome = Outcome("x", "attention", "plain/small", "float32", "cpu", Status(status), reason=reason)
        patience.hear(outcome)
    return patience


def test_it_ends_with_answers_in_a_row_that_do_not_come() -> None:
    assert not left(["hung"] * (HUNG_IN_A_ROW - 1)).ended
    assert left(["passed", *["hung"] * HUNG_IN_A_ROW]).ended == "the 4 answers before it did not come"
    assert not left([*["hung"] * (HUNG_IN_A_ROW - 1), "wrong", "hung"]).ended
    assert not left(["died"] * HUNG_IN_A_ROW).ended, "a death takes no time"


def test_it_ends_with_ten_minutes_of_answers_that_do_not_come_whatever_lies_between() -> None:
    now_and_then = ["hung", "passed", "passed"]

    assert not left(now_and_then * (HUNG_ALTOGETHER - 1)).ended
    assert left(now_and_then * HUNG_ALTOGETHER).ended == "10 answers before it did not come"


@pytest.mark.parametrize(("time_limit", "most"), [(3600.0, 10), (60.0, 10), (59.0, 11), (1.0, 600)])
def test_shorter_limits_let_more_answers_fail_to_come(time_limit: float, most: int) -> None:
    assert not left(["hung", "passed"] * (most - 1), time_limit).ended
    assert left(["hung", "passed"] * most, time_limit).ended


def test_longer_limits_of_a_compiler_cost_no_more_than_ten_minutes() -> None:
    patience = left(["passed"])
    hung = Outcome("x", "attention", "plain/small", "float32", "cpu", Status.HUNG, seconds=300.0)
    patience.hear(hung)
    assert not patience.ended
    patience.hear(hung)
    assert patience.ended == "2 answers before it did not come"


def test_what_was_not_asked_says_nothing() -> None:
    assert not left(["hung"] * 100, reason=Reason.NOT_ASKED).ended
