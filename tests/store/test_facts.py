"""A run's facts come back from its row as they were; what former versions said without types is read into today's."""

from dataclasses import replace

import pytest
from builders import RUN, outcome, without_time

from suite.records import ContractFacts, Example, Facts, Reason, WorkloadFacts
from suite.store import rows

FACTS = Facts(
    {"attention": ContractFacts({"causal": "is_causal"}, {"causal/square": ("causal",)}, "matmul")},
    gaps={"attention/loops": {"causal": "is too slow"}},
    conventions={"attention/loops": {"empty_row": {"bool": "mean"}}},
    findings={"pt-1": "reads past the end"},
    examples=(Example("d/1", "doc-1", "3.1", "output", "1", "1.0", note="erratum"),),
    again={"attention/mine": ("mine.py:f",)},
    workloads={"attention": {"vit/b16": WorkloadFacts("vit", "12 heads", "a layer", 197)}},
    profile="quick",
    seconds={"rounds": 3.5},
)


def test_facts_come_back_as_they_were():
    assert rows.run(rows.run_row(replace(RUN, facts=FACTS))).facts == FACTS


def test_a_run_that_noted_facts_without_types_has_them_and_a_baseline():
    noted = {
        "facts": {
            "contracts": {"attention": {"features": {}, "cases": {"plain": ["causal"]}}},
            "workloads": {"transformer": {"a/b": {"group": "a", "shape": "s", "why": "w", "length": 9}}},
        },
        "profile": "full",
    }

    found = rows.run({**rows.run_row(replace(RUN, facts=Facts())), "notes": noted}).facts

    assert found.contracts["attention"] == ContractFacts({}, {"plain": ("causal",)}, "matmul")
    assert found.contracts["transformer"] == ContractFacts(baseline="eager", is_model=True)
    assert found.workloads["transformer"]["a/b"].length == 9
    assert found.profile == "full"


@pytest.mark.parametrize("noted", [{"contracts": ["a"]}, {"workloads": {"a": {"b": 5}}}, {"examples": [{"id": "x"}]}])
def test_facts_of_another_form_are_refused(noted):
    with pytest.raises(ValueError, match="the facts are not of the form"):
        rows.run({**rows.run_row(RUN), "facts": noted})


def test_a_former_row_has_the_deviation_and_the_reason_that_its_detail_names():
    wrong = outcome("a", "wrong", detail='output[0] is 1; equals "unscaled": no scale or equals "untied": x')
    raised = outcome("a", "raised", detail='ValueError: equals "unscaled"')
    slow = without_time("loops", "declined", "too slow to time here")

    assert rows.outcome({"run": "r1", **rows.lean(wrong)})[1].diagnosis == ("unscaled", "untied")
    assert rows.outcome({"run": "r1", **rows.lean(raised)})[1] == raised
    assert rows.measurement({"run": "r1", **rows.lean(slow)})[1].reason is Reason.TOO_SLOW
