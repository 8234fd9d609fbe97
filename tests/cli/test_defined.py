"""Rows held against what this version defines: the work of its workloads, and the words of its claims."""

import pytest
from honest import FACTS, HONEST, WORK, timed
from msgspec.structs import replace
from stored import folder, record

from attnsuite.cli import defined, verifying
from attnsuite.contracts import contract
from attnsuite.documents.claims import every
from attnsuite.machine import suite_hash
from attnsuite.model import Claimed, Evidence, Holds, WorkloadFacts
from attnsuite.results.store import verify

LADDER = contract("attention").workload("ladder/1k")
DUE = dict(LADDER.work("float32", "forward"))
AS_HERE = WorkloadFacts(LADDER.group, LADDER.shape, LADDER.why, LADDER.length)
REACHED = {"ceilings": {"flops": 1e15, "bytes": 1e15}}


def noting(facts: WorkloadFacts, **others):
    """A run that notes the workload so."""
    return replace(HONEST, facts=replace(FACTS, workloads={"attention": {"ladder/1k": facts}}, **others))


def said(results):
    found = verify(folder(results))
    return [str(each) for each in defined.unlike_definitions(folder(results), found.placed, found.recorded.runs)]


def test_work_is_that_of_the_workload_which_the_run_notes_as_it_is_here(tmp_path):
    record(tmp_path / "right", noting(AS_HERE), timed(work=DUE, **REACHED))
    record(tmp_path / "tenth", noting(AS_HERE), timed(work={name: of / 10 for name, of in DUE.items()}, **REACHED))

    assert said(tmp_path / "right") == []
    tenth = said(tmp_path / "tenth")
    assert [each.partition(": ")[2].partition(" is ")[0] for each in tenth] == [f"work.{name}" for name in DUE]
    assert tenth[0].startswith(f"{folder(tmp_path / 'tenth') / 'benchmark.jsonl'}, line 1: work.attended is ")
    assert tenth[0].endswith(f", and a call of ladder/1k takes {DUE['attended']:.6g}")


def test_verify_of_a_folder_says_so(tmp_path):
    record(tmp_path, noting(AS_HERE), timed(work=DUE | {"attended": 1e6}, **REACHED))

    (refusal,) = (each for each in verifying.verified(folder(tmp_path)).refusals if "work.attended" in each.why)
    assert refusal.path.endswith("benchmark.jsonl")
    assert any(
        "work.attended" in each.why for each in verifying.verified(folder(tmp_path) / "benchmark.jsonl").refusals
    )
    assert not any("work" in each.why for each in verifying.verified(folder(tmp_path) / "runs.jsonl").refusals)


@pytest.mark.parametrize(
    "facts",
    [replace(AS_HERE, shape="other sizes"), replace(AS_HERE, why="an earlier version's"), replace(AS_HERE, length=9)],
    ids=["shape", "why", "length"],
)
def test_a_workload_of_another_version_is_not_held_against_the_one_of_its_name_here(tmp_path, facts):
    record(tmp_path, noting(facts), timed(work=WORK, **REACHED))

    assert said(tmp_path) == []


class Conventional:
    """A workload of which half the work is asked of whoever declares so, and none can be counted by other words."""

    group, shape, why, length, directions = "ladder", "", "", 1024, ("forward",)

    def under(self, conventions):
        return Conventional() if conventions == {"half": "of it"} else LADDER.but(keys=conventions)

    def work(self, dtype, direction):
        return {"attended": 5e5}


@pytest.mark.parametrize(
    ("declared", "attended", "says"),
    [
        ({"half": "of it"}, 5e5, None),
        ({"half": "of it"}, 1e6, "work.attended is 1e+06, and a call of ladder/1k takes 500000"),
        ({"half": ["no word"]}, 1e6, "no work follows from what it declares to mean"),
    ],
    ids=["as declared", "as if it were not", "nonsense"],
)
def test_work_is_that_of_the_conventions_which_the_run_notes(tmp_path, monkeypatch, declared, attended, says):
    monkeypatch.setattr(defined, "_registered", lambda name: {"ladder/1k": Conventional()})
    run = noting(WorkloadFacts("ladder", "", "", 1024), conventions={"attention/loops": declared})
    record(tmp_path, run, timed(work=WORK | {"attended": attended}, **REACHED))

    assert [says in each for each in said(tmp_path)] == ([True] if says else [])


CLAIM = next(each for each in every() if each.evidence == Evidence.EXACT and each.due.words == "2")
ROW = Claimed(
    *(CLAIM.implementation, CLAIM.name, "cpu", CLAIM.document, CLAIM.section, CLAIM.says, CLAIM.quantity, "2"),
    *(Evidence.EXACT, Holds.HOLDS, 2.0, 2.0, 2.0),
)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (ROW, ""),
        (replace(ROW, says="anything"), "says is 'anything', and the claim has "),
        (replace(ROW, due="at least 1"), "'at least 1' is due, exact; the claim has '2', exact"),
        (replace(ROW, evidence=Evidence.DRAWN, samples=(2.0,) * 20), "'2' is due, drawn; the claim has '2', exact"),
        (replace(ROW, claim=f"{CLAIM.topic}/unheard"), f"this version has no claim '{CLAIM.topic}/unheard'"),
    ],
    ids=["as it is", "other words", "another range", "other evidence", "no claim"],
)
def test_a_claim_of_this_very_version_is_in_its_words(tmp_path, row, says):
    record(tmp_path / "mine", replace(HONEST, suite=suite_hash()), row)
    record(tmp_path / "other", HONEST, row)

    assert [says in each for each in said(tmp_path / "mine")] == [True] * bool(says)
    assert said(tmp_path / "other") == [], "another version may have had another claim of that name"
