"""The first mistake in the table of results/README.md."""

from attnsuite.model import Outcome, Status
from attnsuite.report.index import first_mistake


def outcome(status: Status, detail: str) -> Outcome:
    return Outcome("attention/ben", "attention", "plain/small", "float32", "cpu", status, detail)


def test_the_first_diagnosed_failure_names_the_mistake() -> None:
    outcomes = [
        outcome(Status.PASSED, ""),
        outcome(Status.FAILED, "output[0] is 1, should be 2"),
        outcome(Status.FAILED, 'equals "divides_by_width": the scores are divided by d'),
        outcome(Status.FAILED, 'equals "unscaled": no division'),
    ]

    assert first_mistake(outcomes) == "divides_by_width"


def test_a_failure_without_a_diagnosis_and_a_right_file_have_no_name() -> None:
    assert first_mistake([outcome(Status.FAILED, "output[0] is 1, should be 2")]) == ""
    assert first_mistake([outcome(Status.PASSED, 'equals "unscaled"')]) == ""
