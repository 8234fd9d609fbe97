"""A run's facts come back from its row as they were, and runs that noted the same share them."""

import pytest
from msgspec.structs import replace
from stored import RUN, SECOND, folder, outcome, read, record

from attnsuite.model import ContractFacts, Example, Facts, WorkloadFacts
from attnsuite.results.store import facts, runs

FACTS = Facts(
    {"attention": ContractFacts({"causal": "is_causal"}, {"causal/square": ("causal",), "plain": ()}, "matmul")},
    gaps={"attention/loops": {"causal": "is too slow"}},
    conventions={"attention/loops": {"empty_row": {"bool": "mean"}}},
    findings={"pt-1": "reads past the end √"},
    examples=(Example("d/1", "doc-1", "3.1", "output", "1", "1.0", note="erratum"),),
    again={"attention/mine": ("mine.py:f",)},
    workloads={"attention": {"vit/b16": WorkloadFacts("vit", "12 heads", "a layer", 197)}},
    profile="quick",
    seconds={"rounds": 3.5},
)


def test_facts_come_back_as_they_were():
    assert runs.run(runs.open_row(replace(RUN, facts=FACTS))).facts == FACTS


def test_facts_of_a_finished_run_come_back_as_they_were(tmp_path):
    record(tmp_path, replace(RUN, facts=FACTS), outcome(), profile="quick", seconds={"rounds": 3.5})

    assert read(tmp_path).run.facts == FACTS


def test_runs_that_noted_the_same_share_it_whatever_they_took(tmp_path):
    record(tmp_path, replace(RUN, facts=FACTS), outcome("a"), seconds={"rounds": 1.0})
    before = (folder(tmp_path) / "facts.json").read_bytes()

    record(tmp_path, replace(SECOND, facts=FACTS), outcome("b"), seconds={"rounds": 2.0})

    assert (folder(tmp_path) / "facts.json").read_bytes() == before
    assert [run.facts.seconds["rounds"] for run in read(tmp_path).runs.values()] == [1.0, 2.0]


def test_facts_that_no_run_noted_any_more_go(tmp_path):
    record(tmp_path, replace(RUN, facts=FACTS), outcome("a"))
    record(tmp_path, replace(SECOND, facts=Facts(findings={"pt-2": "is new"})), outcome("a"))

    assert "pt-1" not in (folder(tmp_path) / "facts.json").read_text()


def test_each_small_piece_has_a_line_of_its_own():
    name, row = facts.shared(FACTS)

    lines = [line.strip() for line in facts.written({name: row}).splitlines()]

    assert '"causal/square": ["causal"],' in lines
    assert '"features": {"causal": "is_causal"},' in lines
    assert sum(line.startswith('{"id": "d/1", ') for line in lines) == 1


@pytest.mark.parametrize("noted", [{"contracts": ["a"]}, {"workloads": {"a": {"b": 5}}}, {"examples": [{"id": "x"}]}])
def test_facts_of_another_form_are_refused(noted):
    with pytest.raises(ValueError, match="the facts are not of the form"):
        runs.run({**runs.open_row(RUN), "facts": noted})
