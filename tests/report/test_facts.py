"""A run of one contract or one implementation costs no other its features, gaps, conventions, findings or examples."""

from dataclasses import replace

import pytest

from suite.commands import reporting
from suite.records import EVERY_CASE, Machine, Measurement, Outcome, Run
from suite.report import write_conformance, write_index
from suite.report.conformance import facts
from suite.store import Recorded, Results

MACHINE = Machine("amd-epyc-2-cores", "AMD EPYC", 2, 2, 8 * 2**30, "Linux 6.1")


def example(identity, computed="1.0"):
    """A row of a run's notes."""
    texts = {"id": identity, "document": "doc-1", "section": identity, "quantity": "output", "printed": "1"}
    return {**texts, "computed": computed, "statuses": {}, "note": ""}


ATTENTION = {
    "features": {"causal": "is_causal", "gqa": "grouped heads"},
    "cases": {"plain": [], "causal/square": ["causal"], "documents/a": []},
}
POSITIONS = {"features": {"odd": "an odd width"}, "cases": {"plain": [], "odd/3": ["odd"], "documents/p": []}}
ALL = {
    "contracts": {"attention": ATTENTION, "positions": POSITIONS},
    "gaps": {"attention/loops": {"causal": "is too slow"}, "positions/eager": {"odd": "has pairs only"}},
    "conventions": {"attention/loops": {"empty_row": "nan"}},
    "findings": {"pt-1": "reads past the end", "np-1": "rounds twice"},
    "examples": [example("documents/a"), example("documents/p")],
}
OF_POSITIONS = {
    "contracts": {"positions": POSITIONS},
    "gaps": {},
    "conventions": {},
    "findings": {"np-1": "rounds thrice"},
    "examples": [example("documents/p", "2.0")],
}


def run(identity, day, noted):
    return Run(
        *(identity, f"{day}T03:00:00+00:00", MACHINE, {"torch": f"2.{day[-1]}.0"}, f"commit-{identity}", {}, "s"),
        finished=f"{day}T04:00:00+00:00",
        notes={"facts": noted},
    )


FIRST, SECOND = run("first", "2026-01-01", ALL), run("second", "2026-01-02", OF_POSITIONS)


def outcome(name, case, status="passed", **others):
    return Outcome(name, name.partition("/")[0], case, "float32", "cpu", status, **others)


def of_attention(name="attention/loops", case="causal/square"):
    return [
        outcome(name, "plain"),
        outcome(name, case, "wrong", detail="off", known="pt-1"),
        outcome(name, "documents/a"),
    ]


def of_positions():
    return [
        outcome("positions/eager", "plain"),
        outcome("positions/eager", "odd/3", "wrong", detail="off", known="np-1"),
        outcome("positions/eager", "documents/p"),
    ]


def recorded(of_runs, runs=(FIRST, SECOND)):
    """What results/ would hold: rows by the id of their run."""
    pairs = [(identity, row) for identity, rows in of_runs.items() for row in rows]
    return Recorded(MACHINE.name, {each.id: each for each in runs}, tuple(pairs))


def reported(folder, *runs):
    """The page and the index after runs, each with its rows, were recorded one after the other."""
    for new, rows in runs:
        with Results(folder).open_run(new) as writer:
            for row in rows:
                writer.write(row)
            writer.finish(whole={row.implementation for row in rows})
        reporting.report(folder)
    return (folder / MACHINE.name / "conformance.md").read_text(), (folder / "README.md").read_text()


@pytest.fixture
def both():
    """Attention of one run, and positions of a later one."""
    return recorded({"first": of_attention(), "second": of_positions()})


# The page


def test_a_run_of_one_contract_costs_no_other_its_words(tmp_path):
    page, index = reported(tmp_path, (FIRST, [*of_attention(), *of_positions()]), (SECOND, of_positions()))

    assert page.split("## Features")[1].split("##")[1].startswith("# attention")
    assert "| `attention/loops` | cpu | 2/2 | **0/1** |" in page
    assert "causal: is_causal." in page
    assert "| `attention/loops` | causal | is too slow |" in page
    assert "| `attention/loops` | empty_row | nan |" in page
    assert "| pt-1: reads past the end |" in page
    assert "| doc-1 | documents/a | output | 1 | 1.0 | 1 of 1 |  |" in page
    assert "| `pt-1` | `attention/loops` | 1 | reads past the end |" in index


def test_of_what_was_asked_anew_the_newest_run_is_believed(tmp_path):
    page, index = reported(tmp_path, (FIRST, [*of_attention(), *of_positions()]), (SECOND, of_positions()))

    assert "has pairs only" not in page
    assert "rounds twice" not in page + index
    assert "| np-1: rounds thrice |" in page
    assert "| `np-1` | `positions/eager` | 1 | rounds thrice |" in index
    assert page.count("| doc-1 | documents/p |") == 1
    assert "| doc-1 | documents/p | output | 1 | 2.0 | 1 of 1 |  |" in page


def test_page_and_index_say_when_all_was_checked(both, tmp_path):
    page = write_conformance(tmp_path, both.outcomes, both.run, runs=both.checked_runs)[0].read_text()
    index = write_index(tmp_path, {MACHINE.name: both}).read_text()

    told = "Checked in 2 runs from 2026-01-01 to 2026-01-02 with torch 2.1.0 and 2.2.0: above is the newest, and"
    assert page.index("commit-second") < page.index(told) < page.index("| implementation | device |")
    assert "\nChecked from 2026-01-01 to 2026-01-02.\n" in index


def test_an_implementation_of_an_earlier_run_is_told_with_it(tmp_path):
    page, _ = reported(tmp_path, (FIRST, [*of_attention(), *of_positions()]), (SECOND, of_positions()))

    assert "\nChecked in 2 runs " in page
    assert "| 2026-01-01T03:00:00+00:00 | 2.1.0 | commit-first | `attention/loops` |" in page
    assert "| commit-second | `" not in page


def test_what_one_run_checked_is_told_by_the_table_alone(tmp_path):
    page, index = reported(tmp_path, (FIRST, [*of_attention(), *of_positions()]))

    assert "Checked" not in page + index


def test_the_index_knows_a_finding_for_which_something_was_not_timed_in_an_earlier_run(tmp_path):
    refused = Measurement(
        *("positions/eager", "positions", "short", "float32", "cpu", 1, "forward", "hot", "refused"), known="pt-1"
    )

    _, index = reported(tmp_path, (FIRST, [refused]), (SECOND, of_positions()))

    assert "| `pt-1` | `positions/eager` | 1 | reads past the end |" in index


# Which run is believed


def test_an_implementation_asked_anew_that_declares_nothing_has_no_gap():
    later = run("second", "2026-01-02", {**ALL, "gaps": {}, "conventions": {"attention/loops": {"causal": "lower"}}})
    of = recorded({"first": of_attention("attention/matmul"), "second": of_attention()}, (FIRST, later))

    assert facts.declared("gaps", of) == {"attention/loops": {}, "attention/matmul": {}}
    assert facts.declared("conventions", of)["attention/loops"] == {"causal": "lower"}


def test_a_case_that_is_no_more_needs_what_an_older_run_says():
    renamed = {"features": {"gqa": "heads", "causal": "c"}, "cases": {"plain": ["gqa"], "causal/tall": ["causal"]}}
    later = run("second", "2026-01-02", {"contracts": {"attention": renamed}})
    of = recorded(
        {"first": of_attention("attention/matmul"), "second": of_attention(case="causal/tall")}, (FIRST, later)
    )

    found = facts.contracts(of)["attention"]

    assert found.columns == ["core", "gqa", "causal"]
    assert found.features == {"gqa": "heads", "causal": "c"}
    assert found.cases["plain"] == {"gqa"}
    assert found.needs(of.outcomes[1], "causal")
    assert found.needs(outcome("attention/loops", "causal/tall"), "causal")


def test_of_a_contract_asked_anew_by_all_nothing_old_is_left():
    noted = {**ALL, "contracts": {"attention": {"features": {}, "cases": {"plain": []}}}, "examples": []}
    later = run("second", "2026-01-02", noted)
    of = recorded({"first": of_positions(), "second": [outcome("attention/loops", "plain")]}, (FIRST, later))

    assert set(facts.contracts(of)["attention"].cases) == {"plain"}
    assert [each.id for each in facts.examples(of)] == ["documents/p"]


def test_an_example_of_which_two_runs_have_rows_is_told_once_by_the_newest():
    of = recorded({"first": [outcome("positions/loops", "documents/p", "wrong")], "second": of_positions()})

    (found,) = facts.examples(of)

    assert found.computed == "2.0"
    assert found.statuses == {"positions/eager": "passed", "positions/loops": "wrong"}


def test_an_example_that_two_contracts_have_is_told_once_with_the_implementations_of_both():
    cases = {name: {"features": {}, "cases": {"documents/a": []}} for name in ("attention", "positions")}
    only = run("only", "2026-01-01", {"contracts": cases, "examples": [example("documents/a"), example("documents/a")]})
    names = ("attention/loops", "positions/eager")

    (found,) = facts.examples(recorded({"only": [outcome(name, "documents/a") for name in names]}, (only,)))

    assert found.statuses == dict.fromkeys(names, "passed")


def test_an_example_is_told_with_the_worst_that_any_run_found_in_a_dtype(both):
    more = replace(outcome("attention/loops", "documents/a", "wrong"), dtype="float64")
    declined = replace(outcome("positions/eager", "documents/p", "declined"), dtype="float64")

    found = facts.examples(replace(both, rows=(*both.rows, ("first", more), ("second", declined))))

    assert {each.id: each.statuses for each in found} == {
        "documents/a": {"attention/loops": "wrong"},
        "documents/p": {"positions/eager": "passed"},
    }


def test_examples_of_a_contract_whose_libraries_are_missing_are_not_asked():
    of = recorded({"first": [outcome("attention/jax", EVERY_CASE, "missing")]}, (FIRST,))

    assert [(each.id, each.statuses) for each in facts.examples(of)] == [("documents/a", {})]


@pytest.mark.parametrize(
    "noted",
    [
        None,
        3,
        {},
        {"contracts": ["positions"], "gaps": 1, "conventions": "all", "findings": ["np-1"], "examples": {"id": 1}},
        {"contracts": {"positions": {}}, "examples": [1, None, [], {"id": "documents/p"}, {"id": ["x"]}]},
        {"contracts": {"positions": {"features": [], "cases": {"plain": "x", "odd/3": None}}}, "findings": {"np-1": 1}},
        {"contracts": {"positions": {"features": {"odd": 1}, "cases": ["plain"]}}, "examples": "documents/p"},
        {"examples": [{**example("documents/p"), "document": None}, {**example("documents/p"), "id": 5}]},
    ],
)
def test_notes_of_another_form_say_nothing(noted, tmp_path):
    before, _ = reported(tmp_path / "before", (FIRST, of_attention()))

    page, index = reported(
        tmp_path / "after", (FIRST, of_attention()), (run("second", "2026-01-02", noted), of_positions())
    )

    for title in ("### attention", "## Declared gaps", "## Declared conventions", "## The documents' examples"):
        assert before.split(f"\n{title}\n")[1].split("\n#")[0] == page.split(f"\n{title}\n")[1].split("\n#")[0]
    assert "reads past the end" in page
    assert "reads past the end" in index


@pytest.mark.parametrize("what", ["gaps", "conventions"])
def test_where_the_newest_notes_say_nothing_older_ones_of_the_same_speak(what):
    later = run("second", "2026-01-02", {what: 5})
    of = recorded({"first": of_attention(case="older"), "second": of_attention()}, (FIRST, later))

    assert facts.declared(what, of) == {"attention/loops": ALL[what]["attention/loops"]}


def test_entries_of_another_form_are_left_out():
    noted = {
        "contracts": {"attention": {"features": {"causal": 1, "gqa": "heads"}, "cases": {"plain": [], "a": 3}}},
        "gaps": {"attention/loops": ["causal"]},
        "findings": {"pt-1": None, "np-1": "rounds"},
        "examples": [{**example("plain"), "of_a_later_version": "x"}, example("a")],
    }
    of = recorded({"first": of_attention()}, (run("first", "2026-01-01", noted),))

    assert facts.contracts(of)["attention"].features == {"gqa": "heads"}
    assert facts.contracts(of)["attention"].cases == {"plain": frozenset()}
    assert facts.declared("gaps", of) == {"attention/loops": {}}
    assert facts.findings(of) == {"np-1": "rounds"}
    assert [each.id for each in facts.examples(of)] == ["plain"]


def test_who_is_asked_again_by_other_words_than_a_name_is_what_the_newest_run_of_it_says():
    elsewhere = run(
        "first", "2026-01-01", {"again": {"attention/loops": ["/my/loops.py"], "attention/mine": ["mine:f"]}}
    )
    here = run("second", "2026-01-02", {"again": {}})
    rows = [("first", outcome(name, "plain")) for name in ("attention/loops", "attention/mine", "attention/matmul")]
    recorded = Recorded(MACHINE.name, {"first": elsewhere, "second": here}, tuple(rows))

    assert facts.again(recorded) == {
        "attention/loops": ["/my/loops.py"],
        "attention/mine": ["mine:f"],
        "attention/matmul": [],
    }
    later = replace(recorded, rows=(*rows[1:], ("second", outcome("attention/loops", "plain"))))
    assert facts.again(later)["attention/loops"] == []
