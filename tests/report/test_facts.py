"""A run of one contract or one implementation costs no other its features, gaps, conventions, findings or examples."""

from dataclasses import replace

import builders
import pytest
from builders import MACHINE, outcome, recorded
from msgspec import structs

from attnsuite.cli import report as reporting
from attnsuite.model import EVERY_CASE, ContractFacts, Example, Facts, Measurement, Status
from attnsuite.report import facts, write_index
from attnsuite.report.conformance.features import columns, conventions, gaps, needs
from attnsuite.report.machine import write_conformance
from attnsuite.results.store import Results


def example(identity, computed="1.0"):
    return Example(identity, "doc-1", identity, "output", "1", computed)


ATTENTION = ContractFacts(
    {"causal": "is_causal", "gqa": "grouped heads"},
    {"plain": (), "causal/square": ("causal",), "documents/a": ()},
    "matmul",
)
POSITIONS = ContractFacts({"odd": "an odd width"}, {"plain": (), "odd/3": ("odd",), "documents/p": ()}, "eager")
ALL = Facts(
    {"attention": ATTENTION, "positions": POSITIONS},
    gaps={"attention/loops": {"causal": "is too slow"}, "positions/eager": {"odd": "has pairs only"}},
    conventions={"attention/loops": {"empty_row": "nan"}},
    findings={"pt-1": "reads past the end", "np-1": "rounds twice"},
    examples=(example("documents/a"), example("documents/p")),
)
OF_POSITIONS = Facts(
    {"positions": POSITIONS}, findings={"np-1": "rounds thrice"}, examples=(example("documents/p", "2.0"),)
)
FIRST, SECOND = builders.run("first", "2026-01-01", ALL), builders.run("second", "2026-01-02", OF_POSITIONS)


def of_attention(name="attention/loops", case="causal/square"):
    return [
        outcome("plain", name=name),
        outcome(case, "wrong", name=name, detail="off", known="pt-1"),
        outcome("documents/a", name=name),
    ]


def of_positions():
    return [
        outcome("plain", name="positions/eager"),
        outcome("odd/3", "wrong", name="positions/eager", detail="off", known="np-1"),
        outcome("documents/p", name="positions/eager"),
    ]


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
    return recorded({"first": of_attention(), "second": of_positions()}, (FIRST, SECOND))


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
    page = write_conformance(tmp_path, both)[0].read_text()
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
        *("positions/eager", "positions", "short", "float32", "cpu", 1, "forward", "hot", Status.REFUSED), known="pt-1"
    )

    _, index = reported(tmp_path, (FIRST, [refused]), (SECOND, of_positions()))

    assert "| `pt-1` | `positions/eager` | 1 | reads past the end |" in index


# Which run is believed


def test_an_implementation_asked_anew_that_declares_nothing_has_no_gap():
    declared = structs.replace(ALL, gaps={}, conventions={"attention/loops": {"causal": "lower"}})
    later = builders.run("second", "2026-01-02", declared)
    of = recorded({"first": of_attention("attention/matmul"), "second": of_attention()}, (FIRST, later))

    found = facts.declared(of)

    assert gaps(found).rows == ()
    assert [[cell.words for cell in row] for row in conventions(found).rows] == [["attention/loops", "causal", "lower"]]


def test_a_case_that_is_no_more_needs_what_an_older_run_says():
    renamed = ContractFacts({"gqa": "heads", "causal": "c"}, {"plain": ("gqa",), "causal/tall": ("causal",)})
    later = builders.run("second", "2026-01-02", Facts({"attention": renamed}))
    of = recorded(
        {"first": of_attention("attention/matmul"), "second": of_attention(case="causal/tall")}, (FIRST, later)
    )

    found = facts.contracts(of)["attention"]

    assert columns(found) == ["core", "gqa", "causal"]
    assert found.features == {"gqa": "heads", "causal": "c"}
    assert found.cases["plain"] == ("gqa",)
    assert needs(found, of.outcomes[1], "causal")
    assert needs(found, outcome("causal/tall", name="attention/loops"), "causal")


def test_of_a_contract_asked_anew_by_all_nothing_old_is_left():
    noted = structs.replace(ALL, contracts={"attention": ContractFacts(cases={"plain": ()})}, examples=())
    later = builders.run("second", "2026-01-02", noted)
    of = recorded({"first": of_positions(), "second": [outcome("plain", name="attention/loops")]}, (FIRST, later))

    assert set(facts.contracts(of)["attention"].cases) == {"plain"}
    assert [each.id for each in facts.examples(of)] == ["documents/p"]


def test_an_example_of_which_two_runs_have_rows_is_told_once_by_the_newest():
    of = recorded(
        {"first": [outcome("documents/p", "wrong", name="positions/loops")], "second": of_positions()}, (FIRST, SECOND)
    )

    (found,) = facts.examples(of)

    assert found.computed == "2.0"
    assert found.statuses == {"positions/eager": "passed", "positions/loops": "wrong"}


def test_an_example_that_two_contracts_have_is_told_once_with_the_implementations_of_both():
    contracts = {name: ContractFacts(cases={"documents/a": ()}) for name in ("attention", "positions")}
    noted = Facts(contracts, examples=(example("documents/a"), example("documents/a")))
    only = builders.run("only", "2026-01-01", noted)
    names = ("attention/loops", "positions/eager")

    (found,) = facts.examples(recorded({"only": [outcome("documents/a", name=name) for name in names]}, (only,)))

    assert found.statuses == dict.fromkeys(names, "passed")


def test_an_example_is_told_with_the_worst_that_any_run_found_in_a_dtype(both):
    more = structs.replace(outcome("documents/a", "wrong", name="attention/loops"), dtype="float64")
    declined = structs.replace(outcome("documents/p", "declined", name="positions/eager"), dtype="float64")

    found = facts.examples(replace(both, rows=(*both.rows, ("first", more), ("second", declined))))

    assert {each.id: each.statuses for each in found} == {
        "documents/a": {"attention/loops": "wrong"},
        "documents/p": {"positions/eager": "passed"},
    }


def test_examples_of_a_contract_whose_libraries_are_missing_are_not_asked():
    of = recorded({"first": [outcome(EVERY_CASE, "missing", name="attention/jax")]}, (FIRST,))

    assert [(each.id, each.statuses) for each in facts.examples(of)] == [("documents/a", {})]


def test_who_is_asked_again_by_other_words_than_a_name_is_what_the_newest_run_of_it_says():
    again = {"attention/loops": ("/my/loops.py",), "attention/mine": ("mine:f",)}
    elsewhere = builders.run("first", "2026-01-01", Facts(again=again))
    here = builders.run("second", "2026-01-02", Facts())
    rows = [
        ("first", outcome("plain", name=name)) for name in ("attention/loops", "attention/mine", "attention/matmul")
    ]
    found = recorded({"first": [row for _, row in rows]}, (elsewhere, here))

    assert {name: of.again.get(name, ()) for name, of in facts.declared(found).items()} == {
        **again,
        "attention/matmul": (),
    }
    later = replace(found, rows=(*found.rows[1:], ("second", outcome("plain", name="attention/loops"))))
    assert facts.declared(later)["attention/loops"].again == {}
