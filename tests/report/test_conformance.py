"""The page of conformance: right counts, failures in groups with what to do, the same page for the same records."""

import pytest
from builders import MACHINE, NASTY, RUN, outcome, recorded
from markdown_it import MarkdownIt
from msgspec.structs import replace
from pages import cells

from attnsuite.model import EVERY_CASE, STATUSES, ContractFacts, Example, Facts, Reason, UsageError
from attnsuite.report import write_index
from attnsuite.report.conformance import page as page_of
from attnsuite.report.conformance.page import WORDS, conformance
from attnsuite.report.machine import write_conformance
from attnsuite.report.render import markdown

FACTS = {
    "attention": ContractFacts(
        {"bool_mask": "a boolean mask", "causal": "is_causal", "gqa": "grouped heads", "float32": "float32"},
        {
            "small/plain": ("float32",),
            "mask/rows": ("bool_mask", "float32"),
            "mask/causal": ("causal", "bool_mask"),
            "causal/square": ("causal",),
        },
    )
}
UNSCALED = {
    "detail": "output[0] is -0.68, should be -0.69; equals unscaled: the scores are not divided by √e",
    "diagnosis": ("unscaled",),
}


def of(outcomes, **noted):
    """What is recorded after one run that noted these facts."""
    return recorded({"r1": outcomes}, [replace(RUN, facts=Facts(**noted))])


def whole(found):
    """The page with all its details."""
    return next(conformance(found))


def page(outcomes, **noted):
    return markdown.render(whole(of(outcomes, **noted)))


def short(outcomes, **noted):
    """The page without what stands in its tables for programs."""
    return markdown.render(list(conformance(of(outcomes, **noted)))[-1])


# The headline


def test_headline_counts_each_dtype():
    text = page(
        [
            outcome("a"),
            outcome("b", "wrong"),
            outcome("b", "died", dtype="float64"),
            outcome("c", "raised", dtype="float64", known="f"),
            outcome("c", "declined", dtype="float16"),
            outcome("a", name="attention/matmul"),
        ],
    )

    assert (
        "| implementation | device | float64 | float32 | float16 | all | declined | failures | known failures |" in text
    )
    row = ["`attention/loops`", "cpu", "0/2", "1/2", "declined", "1/4 (declined 1)", "1", "1 wrong, 1 died", "1"]
    assert cells(text, "`attention/loops`") == row
    assert cells(text, "`attention/matmul`")[2:] == ["–", "1/1", "–", "1/1", "0", "0", "0"]
    assert cells(text, "all")[5:] == ["2/5 (declined 1)", "1", "1 wrong, 1 died", "1"]


def test_an_implementation_that_was_asked_nothing_leaves_the_headline_for_one_line_and_says_why():
    missing = outcome(EVERY_CASE, "missing", "attention/jax", dtype="", detail="No module named 'jax'")

    text = page([outcome(), missing])

    assert "Asked nothing here, for all was declined or a library is missing: `attention/jax`." in text
    assert "| `attention/jax` | cpu | every case | No module named 'jax' |" in text


def test_an_import_that_raised_is_a_failure_of_every_case():
    text = page([outcome(EVERY_CASE, "raised", dtype="", detail="SyntaxError: bad")], contracts=FACTS)

    assert cells(text, "`attention/loops`")[2:] == ["0/1", "0", "1 raised", "0"]
    assert "| raised: SyntaxError: bad | every case | `attnsuite check attention/loops` |" in text


def test_top_names_machine_versions_commit_and_date():
    text = page([outcome()]).split("| implementation")[0]

    for fact in (
        "# Conformance on amd-epyc-2-cores",
        "AMD EPYC, 2 cores",
        "NVIDIA H200",
        "torch 2.13.0",
        "abc123",
        "2026-01-02",
    ):
        assert fact in text


def test_an_unfinished_run_says_so():
    of_run = recorded({}, [replace(RUN, finished="", commit="", versions={})])

    assert "(not finished)" in markdown.render(whole(of_run))


# Features


def test_features_are_counted_by_what_cases_need():
    outcomes = [
        outcome("small/plain"),
        outcome("mask/rows", "wrong"),
        outcome("mask/causal", "declined"),
        outcome("causal/square", "declined"),
        outcome("of/an/earlier/suite"),
    ]

    text = page(outcomes, contracts=FACTS).split("## Features")[1]

    assert "| implementation | device | core | bool_mask | causal |" in text
    assert cells(text, "`attention/loops`")[2:] == ["1/1", "**0/1 (declined 1)**", "declined"]
    assert "bool_mask: a boolean mask; causal: is_causal." in text


def test_gaps_and_conventions_stand_below_in_words():
    text = page(
        [outcome()],
        contracts=FACTS,
        gaps={"attention/loops": {"causal": "no | such path"}, "attention/absent": {"gqa": "not shown"}},
        conventions={"attention/loops": {"empty_row": {"float": "nan", "bool": "mean"}, "causal": "lower_right"}},
    )

    assert "| `attention/loops` | causal | no \\| such path |" in text
    assert "| `attention/loops` | empty_row | bool: mean, float: nan |" in text
    assert "not shown" not in text


def test_what_implementations_declare_stands_in_a_table_for_programs_too():
    found = whole(of(
        [outcome()],
        gaps={"attention/loops": {"causal": "no such path"}},
        conventions={"attention/loops": {"empty_row": "nan"}},
        walls={"attention/loops": "walls: files"},
    ))  # fmt: skip

    assert [[cell.value for cell in row] for row in found.data["conformance_declared"].rows] == [
        ["attention/loops", "lacks", "causal", "no such path"],
        ["attention/loops", "convention", "empty_row", "nan"],
        ["attention/loops", "walls", "", "walls: files"],
    ]


def test_a_row_of_features_that_says_nothing_is_left_out():
    outcomes = [outcome(), outcome(status="declined", name="attention/cudnn", detail="lacks cpu")]

    text = page(outcomes, contracts=FACTS).split("## Features")[1].split("## Declined")[0]

    assert "`attention/loops`" in text
    assert "`attention/cudnn`" not in text


def test_implementations_of_two_contracts_have_a_table_each():
    facts = {**FACTS, "add_norm": ContractFacts({}, {"small/plain": ()})}
    other = replace(outcome(name="add_norm/eager"), contract="add_norm")

    text = page([outcome(), other], contracts=facts)

    assert text.index("### add_norm") < text.index("| `add_norm/eager` | cpu | 1/1 |\n") < text.index("### attention")


# Failures


def test_failures_of_one_kind_are_one_line_with_an_example_to_ask_again():
    many = [
        outcome(f"mask/{number}", "wrong", detail=f"output[{number}, 1] is {number / 7}, should be -1e-3", dtype=dtype)
        for number in range(100)
        for dtype in ("float16", "float32")
    ]

    text = page([*reversed(many), outcome("x y", "wrong", **UNSCALED), outcome("z too", "wrong", **UNSCALED)])

    section = text.split("## Failures")[1].split("##")[0]
    assert section.count("| `attention/loops` |") == 2
    assert (
        "| `attention/loops` | 200 | wrong: output\\[0, 1\\] is 0.0, should be -1e-3 | mask/0 in float32 |" in section
    )
    assert "`attnsuite check attention/loops --case mask/0 --dtype float32`" in section
    assert "| 2 |" in section
    assert "the scores are not divided by √e" in section
    assert "--case 'x y'" in section


def test_known_failures_are_apart_with_their_finding():
    known = outcome("a", "wrong", **UNSCALED, known="sdpa_reads_beyond")
    stale = outcome("b", "wrong", **UNSCALED, known="of_an_earlier_suite")

    text = page([known, stale], findings={"sdpa_reads_beyond": "torch ≤ 2.13 reads past the end"})

    assert "## Failures" not in text
    assert "sdpa_reads_beyond: torch ≤ 2.13 reads past the end" in text.split("## Known failures")[1]
    assert cells(text, "`attention/loops`")[-2:] == ["0", "2"]


def test_accepted_bad_input_that_fails_nothing_has_a_section_of_its_own():
    accepted = outcome("bad_input/keys", "wrong", detail="input validation: …", reason=Reason.LENIENT)

    text = page([outcome(), outcome("bad_input/widths"), accepted])

    assert "| `attention/loops` | cpu | 1 of 2 | `bad_input/keys` |" in text.split("## Input validation")[1]
    assert "## Failures" not in text


def test_an_outcome_about_the_whole_is_asked_again_as_a_whole():
    text = page([outcome("declared/gqa", "wrong", dtype="*", detail="remove the declaration")], contracts=FACTS)

    assert "| declared/gqa | `attnsuite check attention/loops` |" in text
    assert cells(text, "`attention/loops`")[2:] == ["0/1", "0", "1 wrong", "0"]


def test_declined_cases_are_counted_by_reason():
    outcomes = [
        outcome(f"c/{number}", "declined", detail=f"takes no attn_mask of rank {number}") for number in range(5)
    ]

    text = page([*outcomes, outcome("d", "declined", detail="no causal")])

    assert "| `attention/loops` | cpu | 5 | takes no attn_mask of rank 0 |" in text
    assert "| `attention/loops` | cpu | 1 | no causal |" in text


def test_the_short_page_has_each_reason_once_with_all_that_have_it():
    def plugged(name, reason):
        return outcome("c", "declined", name, detail=reason, dtype="float64")

    outcomes = [
        *(plugged(f"attention/n{number}", "lacks cpu: no kernel for a CPU") for number in range(2)),
        *(plugged(f"mha/n{number}", f"lacks cpu: attention/n{number}: no kernel for a CPU") for number in range(4)),
        plugged("attention/a", "no causal; in its own words: NotImplementedError"),
        outcome(EVERY_CASE, "missing", "attention/jax", dtype="", detail="No module named 'jax'"),
    ]

    text = short(outcomes)
    rows = whole(of(outcomes)).data["conformance_declined"].data.rows

    named = "`attention/n0`, `attention/n1`, `mha/n0` and 3 more"
    assert f"| 6 | {named} | lacks cpu: no kernel for a CPU |" in text
    assert "| 1 | `attention/a` | no causal |" in text
    assert "| every case | `attention/jax` | No module named 'jax' |" in text.split("## Missing")[1]
    assert len(rows) == len(outcomes), "in the table for programs they stand apart, as each said it"
    assert [row[4].value for row in rows][-1] == "lacks cpu: attention/n3: no kernel for a CPU"


def test_a_page_of_many_implementations_is_short_and_counts_what_it_leaves_out(monkeypatch, tmp_path):
    monkeypatch.setattr(page_of, "MOST_ASKED", 5)
    monkeypatch.setattr(page_of, "MOST_REASONS", 2)
    names = [f"attention/n{number:03}" for number in range(300)]
    reasons = ("declined", "because of a"), ("declined", "because of b"), ("declined", "because of c")
    outcomes = [
        row for name in names
        for row in (outcome(name=name), *(outcome(why, status, name, detail=why) for status, why in reasons))
    ]  # fmt: skip

    text = write_conformance(tmp_path, of(outcomes))[0].read_text()

    assert len(text.splitlines()) < 60
    assert "| 295 more, which stand in conformance.csv |" in text
    assert cells(text, "all")[2:] == ["300/300 (declined 900)", "300/300 (declined 900)", "900", "0", "0"]
    assert "1 more lines: [conformance_declined.csv](conformance_declined.csv)" in text
    assert len((tmp_path / "conformance.csv").read_text().splitlines()) == 301


def test_rows_of_an_earlier_run_are_named():
    old = replace(RUN, id="old", started="2025-01-01T00:00:00+00:00", versions={"torch": "2.9.0"}, commit="")

    def said(*names):
        rows = {"old": [outcome(name=f"attention/{name}") for name in names], "r1": [outcome(name="attention/new")]}
        return markdown.render(whole(recorded(rows, [old, RUN])))

    row = "| 2025-01-01T00:00:00+00:00 | 2.9.0 | – | `attention/eager`, `attention/loops` |"
    assert row in said("loops", "eager")
    assert ", `attention/11` and 8 more |" in said(*(f"{number:02}" for number in range(20)))


# Examples


def test_examples_stand_printed_beside_computed():
    examples = (
        Example("d/2", "doc-001", "3.2", "weights", "[0.5, 0.25]", "[0.5000, 0.2500]"),
        Example("d/1", "doc-001", "3.1", "shape", "(2, 3)", "(2, 3)", note="erratum E3"),
        Example("d/3", "doc-002", "1", "output"),
    )
    became = {"loops": "passed", "flex": "wrong", "jax": "missing", "x": "declined"}
    outcomes = [outcome("d/2", status, f"attention/{name}") for name, status in became.items()]
    asked = {"attention": ContractFacts(cases={"d/1": (), "d/2": (), "d/3": ()})}

    found = whole(of([*outcomes, outcome("d/1")], examples=examples, contracts=asked))
    text, table = markdown.render(found), found.data["conformance_examples"]

    first, second, third = text.split("## The documents' examples")[1].split("##")[0].strip().splitlines()[2:]
    assert first == "| doc-001 | 3.1 | shape | (2, 3) | (2, 3) | 1 of 1 | erratum E3 |"
    assert "| \\[0.5, 0.25\\] | \\[0.5000, 0.2500\\] | 1 of 2; not `attention/flex` (wrong) |" in second
    assert third == "| doc-002 | 1 | output | – | – | not asked |  |"
    assert [cell.value for cell in table.data.rows[1]][-4:] == [1, 2, "attention/flex", ""]


def test_the_short_page_shows_examples_that_somebody_fails_and_counts_the_others():
    examples = [Example(f"d/{number}", "doc-001", f"3.{number}", "output", "0.5", "0.5") for number in range(5)]
    outcomes = [outcome(each.id, "wrong" if each.id == "d/2" else "passed") for each in examples]
    asked = {"attention": ContractFacts(cases={each.id: () for each in examples})}

    text = short(outcomes, examples=tuple(examples), contracts=asked).split("## The documents' examples")[1]

    assert "Of 5 quantities in them 5 were asked, and 4 are reproduced by all implementations" in text
    assert "| doc-001 | 3.2 | output | 0.5 | 0.5 | 0 of 1; not `attention/loops` (wrong) |" in text
    assert "3.1" not in text


def test_what_the_documents_themselves_give_is_counted_by_example():
    examples = (
        Example("documents/doc-003/3.3/weights", "doc-003", "3.3", "weights", "0.5", "0.5", given="digits"),
        Example("documents/doc-003/3.3/output", "doc-003", "3.3", "output", "0.5", "0.5", given="digits"),
        Example("documents/doc-004/11.3/", "doc-004", "11.3", "shape", "(2, 3)", "(2, 3)", given="shapes"),
        Example("documents/doc-001/sdpa/output", "doc-001", "sdpa", "output", "", "1.0", given="derived"),
    )
    asked = {"attention": ContractFacts(cases={of.id: () for of in examples})}

    def said(given):
        return markdown.render(whole(of([outcome(examples[0].id)], examples=given, contracts=asked)))

    counted = "1 printed digits, 1 printed shapes or statements, 1 values derived from a definition."
    assert f"Of 3 examples the documents themselves give: {counted}" in said(examples)
    assert "the documents themselves give" not in said([replace(each, given="") for each in examples])


# The whole


def test_a_page_of_hostile_text_holds_no_html_and_no_link(tmp_path):
    outcomes, examples, gaps, conventions = [], [], {}, {}
    for position, text in enumerate(NASTY):
        name = f"{text}{position}"
        for status in ("wrong", "declined", "missing"):
            case = {"case": f"{status}/{text}", "status": status, "name": name}
            outcomes.append(outcome(**case, detail=text, device=text, known=text[:9], diagnosis=(text,)))
            outcomes.append(outcome(**case, detail=text, dtype=text))
        examples.append(Example(f"wrong/{text}", text, text, text, text, text, {}, text))
        gaps[name] = {text: text}
        conventions[name] = {text: {text: text}}
    cases = {f"wrong/{text}": (text,) for text in NASTY}
    contracts = {row.contract: ContractFacts({NASTY[4]: NASTY[4]}, cases) for row in outcomes}
    hostile = replace(
        *(RUN,),
        machine=replace(MACHINE, processor=NASTY[4], system=NASTY[6]),
        versions={"torch": NASTY[4]},
        facts=Facts(contracts, gaps, conventions, {text: text for text in NASTY}, tuple(examples)),
    )
    found = recorded({"old": outcomes[:9], "r1": outcomes[9:]}, [replace(hostile, id="old"), hostile])

    (page, *tables), index = write_conformance(tmp_path, found), write_index(tmp_path, {"amd": found})

    for path, explained, own in ((page, len(WORDS), {table.name for table in tables}), (index, 0, set())):
        tokens = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(path.read_text())
        every = [each for token in tokens for each in (token, *(token.children or ()))]
        kinds = [each.type for each in every]
        assert not {"html_block", "html_inline", "image", "s_open", "ordered_list_open"} & set(kinds)
        assert {each.attrs["href"] for each in every if each.type == "link_open"} == own
        assert kinds.count("em_open") == kinds.count("list_item_open") == explained
        assert not any(c < " " and c != "\n" for c in path.read_text())


def test_nothing_but_a_run_is_needed():
    found = whole(of([]))

    assert "Nothing is recorded yet." in markdown.render(found)
    assert not any(table for table in found.data.values())


def test_each_status_is_explained_once():
    text = page([outcome()])

    assert all(text.count(f"- *{status}*: ") == 1 for status in STATUSES)


def test_a_table_for_readers_and_for_programs_has_the_same_rows():
    found = whole(of([outcome(f"c/{n}", "wrong", f"attention/n{n}", detail="off") for n in range(3)]))

    (failures,) = [each for each in found.blocks if getattr(each, "title", "") == "Failures"]
    (shown,) = failures.blocks
    assert shown == found.data["conformance_failures"]
    assert [column.key for column in shown.data.columns][-3:] == ["case", "dtype", "ask_again"]


def test_the_same_records_in_another_order_give_the_same_files(tmp_path):
    outcomes = [
        outcome(case, status, name, dtype=dtype, detail=f"{status} in {case} {dtype}")
        for case in ("small/plain", "mask/rows", "mask/causal")
        for name, status in (("attention/a", "passed"), ("attention/b", "wrong"), ("attention/c", "declined"))
        for dtype in ("bfloat16", "float32")
    ]
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()

    one = write_conformance(tmp_path / "one", of(outcomes, contracts=FACTS))
    two = write_conformance(tmp_path / "two", of(outcomes[::-1], contracts=FACTS))

    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
    assert [path.name for path in one] == [
        "conformance.md",
        "conformance.csv",
        "conformance_features.csv",
        "conformance_failures.csv",
        "conformance_declined.csv",
        "conformance_declared.csv",
        "conformance_examples.csv",
    ]


def test_a_folder_that_is_a_file_is_refused_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match="cannot be written: Not a directory"):
        write_conformance(tmp_path / "file", of([]))


def test_a_sample_is_marked_as_one():
    found = of(
        [outcome("a", name="attention/flex"), outcome("a", name="attention/loops")], sampled={"attention/flex": 1759}
    )

    text = markdown.render(whole(found))

    assert cells(text, "`attention/flex`")[-4] == "1/1 (sample)"
    assert cells(text, "`attention/loops`")[-4] == "1/1"
    assert "(`attnsuite run --full` tests everything): `attention/flex` 1 of 1,759 tests." in text


def test_a_whole_run_after_a_sample_is_none():
    runs = [replace(RUN, id="r1", facts=Facts(sampled={"attention/flex": 2})), replace(RUN, id="r2")]
    found = recorded({"r1": [outcome("a", name="attention/flex")], "r2": [outcome("b", name="attention/flex")]}, runs)

    assert "(sample)" not in markdown.render(whole(found))


def test_the_index_marks_a_sample(tmp_path):
    found = of([outcome("a", name="attention/flex"), outcome("a", name="bleu/loops")], sampled={"attention/flex": 9})

    text = write_index(tmp_path, {MACHINE.name: found}).read_text()

    assert "1/1 (sample)" in text
    assert "`attention/flex` 1 of 9 tests." in text
