"""The tables: right counts, harmless text, the same output for the same records."""

import csv
import io
import subprocess
import sys
from dataclasses import replace

import pandas
import pytest
from markdown_it import MarkdownIt

from suite.records import EVERY_CASE, Example, Machine, Outcome, Run, UsageError
from suite.report import ContractFacts, summary_lines, write_conformance, write_index
from suite.report.conformance.tally import GROUPS, count, groups, pattern
from suite.report.text import code, escaped, plain, table
from suite.store import Recorded, Results, read_outcomes

MACHINE = Machine("amd-epyc-2-cores", "AMD EPYC", 2, 2, 8 * 2**30, "Linux 6.1", ("NVIDIA H200",))
RUN = Run(
    *("r1", "2026-01-02T03:04:05+00:00", MACHINE, {"python": "3.12.1", "torch": "2.13.0"}, "abc123", {}, "s"),
    finished="2026-01-02T04:00:00+00:00",
)
FACTS = {
    "attention": ContractFacts(
        {"bool_mask": "a boolean mask", "causal": "is_causal", "gqa": "grouped heads", "float32": "float32"},
        {
            "small/plain": frozenset({"float32"}),
            "mask/rows": frozenset({"bool_mask", "float32"}),
            "mask/causal": frozenset({"causal", "bool_mask"}),
            "causal/square": frozenset({"causal"}),
        },
    )
}
UNSCALED = 'output[0] is -0.68, should be -0.69; equals "unscaled": the scores are not divided by √e'
NASTY = [
    "a|b",
    "back\\|slash\\",
    "line\nbreak\r\n\ttab",
    "`code` ``more``",
    "<script>alert(1)</script>",
    "<!-- hidden -->",
    "[link](javascript:alert(1)) ![image](http://x/y.png)",
    "**bold** _em_ __init__ ~~gone~~ snake_case_name",
    "&lt; &amp; &#60;",
    "# heading",
    "| --- | --- |",
    "$x^2$ \\(a\\)",
    "\x1b[31mred\x1b[0m \x07 \u202egnirts\u202c \x00",
    "lone \udc80 surrogate",
    "`",
    "`a",
    "``",
    "- item",
    "=1+1",
    "",
]


def outcome(case="small/plain", status="passed", name="attention/loops", **others):
    return Outcome(
        name, "attention", case, others.pop("dtype", "float32"), others.pop("device", "cpu"), status, **others
    )


def page(tmp_path, outcomes, **facts):
    return write_conformance(tmp_path, outcomes, RUN, **facts)[0].read_text()


def cells(text, start):
    """The cells of the table row that starts with `start`."""
    row = next(line for line in text.splitlines() if line.startswith(f"| {start} |"))
    return [cell.strip() for cell in row.strip("|").split(" | ")]


def rendered(lines):
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse("\n".join(lines))


def shown(lines):
    """The texts of the table cells as a browser shows them, row by row."""
    texts = []
    for token in rendered(lines):
        if token.type == "tr_open":
            texts.append([])
        elif token.type == "inline":
            assert all(child.type in ("text", "text_special", "code_inline") for child in token.children), (
                token.children
            )
            texts[-1].append("".join(child.content for child in token.children))
    return texts


# Counting


def test_declined_and_missing_are_neither_passed_nor_asked():
    counts = count(
        [
            outcome("a"),
            outcome("b", "wrong"),
            outcome("c", "hung", known="f"),
            outcome("d", "declined"),
            outcome("e", "missing"),
        ]
    )

    assert (counts.passed, counts.asked, counts.failures, counts.known) == (1, 3, 1, 1)
    assert str(counts) == "1/3 (declined 1)"
    assert str(count([outcome(status="declined")])) == "declined"
    assert str(count([outcome(status="missing")])) == "missing"
    assert str(count([])) == "–"


def test_headline_counts_each_dtype(tmp_path):
    text = page(
        tmp_path,
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


def test_a_missing_implementation_stands_in_the_headline_and_says_why(tmp_path):
    missing = outcome(EVERY_CASE, "missing", "attention/jax", dtype="", detail="No module named 'jax'")

    text = page(tmp_path, [outcome(), missing])

    assert cells(text, "`attention/jax`") == ["`attention/jax`", "cpu", "missing", "missing", "–", "–", "–"]
    assert "| `attention/jax` | cpu | every case | No module named 'jax' |" in text


def test_an_import_that_raised_is_a_failure_of_every_case(tmp_path):
    text = page(tmp_path, [outcome(EVERY_CASE, "raised", dtype="", detail="SyntaxError: bad")], contracts=FACTS)

    assert cells(text, "`attention/loops`")[2:] == ["0/1", "0", "1 raised", "0"]
    assert "| raised: SyntaxError: bad | every case | `attnsuite check attention/loops` |" in text


def test_top_names_machine_versions_commit_and_date(tmp_path):
    text = page(tmp_path, [outcome()]).split("| implementation")[0]

    for fact in (
        "# Conformance on amd-epyc-2-cores",
        "AMD EPYC, 2 cores",
        "NVIDIA H200",
        "torch 2.13.0",
        "abc123",
        "2026-01-02",
    ):
        assert fact in text


def test_an_unfinished_run_says_so(tmp_path):
    write_conformance(tmp_path, [], replace(RUN, finished="", commit="", versions={}))

    assert "(not finished)" in (tmp_path / "conformance.md").read_text()


# Features


def test_features_are_counted_by_what_cases_need(tmp_path):
    outcomes = [
        outcome("small/plain"),
        outcome("mask/rows", "wrong"),
        outcome("mask/causal", "declined"),
        outcome("causal/square", "declined"),
        outcome("of/an/earlier/suite"),
    ]

    text = page(tmp_path, outcomes, contracts=FACTS).split("## Features")[1]

    assert "| implementation | device | core | bool_mask | causal |" in text
    assert cells(text, "`attention/loops`")[2:] == ["1/1", "**0/1 (declined 1)**", "declined"]
    assert "bool_mask: a boolean mask; causal: is_causal." in text


def test_gaps_and_conventions_stand_below_in_words(tmp_path):
    text = page(
        tmp_path,
        [outcome()],
        contracts=FACTS,
        gaps={"attention/loops": {"causal": "no | such path"}, "attention/absent": {"gqa": "not shown"}},
        conventions={"attention/loops": {"empty_row": {"float": "nan", "bool": "mean"}, "causal": "lower_right"}},
    )

    assert "| `attention/loops` | causal | no \\| such path |" in text
    assert "| `attention/loops` | empty_row | bool: mean, float: nan |" in text
    assert "not shown" not in text


def test_implementations_of_two_contracts_have_a_table_each(tmp_path):
    facts = {**FACTS, "add_norm": ContractFacts({}, {"small/plain": frozenset()})}
    other = replace(outcome(name="add_norm/eager"), contract="add_norm")

    text = page(tmp_path, [outcome(), other], contracts=facts)

    assert text.index("### add_norm") < text.index("| `add_norm/eager` | cpu | 1/1 |\n") < text.index("### attention")


# Failures


def test_failures_of_one_kind_are_one_line_with_an_example_to_ask_again(tmp_path):
    many = [
        outcome(f"mask/{number}", "wrong", detail=f"output[{number}, 1] is {number / 7}, should be -1e-3", dtype=dtype)
        for number in range(100)
        for dtype in ("float16", "float32")
    ]

    text = page(
        tmp_path, [*reversed(many), outcome("x y", "wrong", detail=UNSCALED), outcome("z", "wrong", detail=UNSCALED)]
    )

    section = text.split("## Failures")[1].split("##")[0]
    assert section.count("| `attention/loops` |") == 2
    assert (
        "| `attention/loops` | 200 | wrong: output\\[0, 1\\] is 0.0, should be -1e-3 | mask/0 in float32 |" in section
    )
    assert "`attnsuite check attention/loops --case mask/0 --dtype float32`" in section
    assert "| 2 |" in section
    assert "the scores are not divided by √e" in section
    assert "--case 'x y'" in section


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("output[1, 1, 0, 1] is -0.684341, should be -0.684652", "output[0] is 1.2e+3, should be nan"),
        ('a; equals "unscaled": the scores', 'b (3 of 4); equals "unscaled": the scores'),
        ("RuntimeError: size 3 at 0x7f00aa", "RuntimeError: size 44 at 0x01"),
        ("has shape (1, 2), should", "has shape (1, 2, 3, 4), should"),
        ("is inf", "is -inf"),
        ('equals "a": x or equals "b": y; output[0] is 1', 'equals "a": x or equals "b": y; grad is nan'),
    ],
)
def test_details_of_one_kind_have_one_pattern(one, other):
    assert pattern(one) == pattern(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('equals "unscaled": a', 'equals "untied": a'),
        ('equals "a": x', 'equals "a": x or equals "b": y'),
        ("is information", "is nano"),
        ("gradient of query is 1", "gradient of key is 1"),
    ],
)
def test_details_of_two_kinds_have_two_patterns(one, other):
    assert pattern(one) != pattern(other)


def test_a_submission_whose_messages_all_differ_cannot_fill_the_page():
    def word(number):
        return "".join(chr(97 + int(digit)) for digit in str(number))

    noisy = [outcome(f"case/{number}", "raised", detail=f"Error: {word(number)}") for number in range(500)]

    found = groups(noisy)

    assert len(found) == GROUPS + 1
    assert (found[-1].count, found[-1].others) == (500 - GROUPS, 500 - GROUPS)
    assert sum(group.count for group in found) == 500


def test_known_failures_are_apart_with_their_finding(tmp_path):
    known = outcome("a", "wrong", detail=UNSCALED, known="sdpa_reads_beyond")
    stale = outcome("b", "wrong", detail=UNSCALED, known="of_an_earlier_suite")

    text = page(tmp_path, [known, stale], findings={"sdpa_reads_beyond": "torch ≤ 2.13 reads past the end"})

    assert "## Failures" not in text
    assert "sdpa_reads_beyond: torch ≤ 2.13 reads past the end" in text.split("## Known failures")[1]
    assert cells(text, "`attention/loops`")[-2:] == ["0", "2"]


def test_another_device_is_named_where_to_ask_again():
    assert groups([outcome(status="wrong", device="cuda")])[0].rerun.endswith("--dtype float32 --device cuda")


def test_what_has_no_registered_name_is_asked_again_by_the_words_that_found_it():
    again = {"attention/loops": ["my loops.py:f", "--contract", "attention"]}

    (group,) = groups([outcome("c", "wrong", device="cuda:1")], again)

    command = "attnsuite check 'my loops.py:f' --contract attention --case c --dtype float32 --device cuda:1"
    assert group.rerun == command
    assert summary_lines([outcome("c", "wrong", device="cuda:1")], again)[-1].strip() == command


def test_an_outcome_about_the_whole_is_asked_again_as_a_whole(tmp_path):
    text = page(
        tmp_path, [outcome("declared/gqa", "wrong", dtype="*", detail="remove the declaration")], contracts=FACTS
    )

    assert "| declared/gqa | `attnsuite check attention/loops` |" in text
    assert cells(text, "`attention/loops`")[2:] == ["0/1", "0", "1 wrong", "0"]


def test_a_status_that_the_detail_names_is_not_named_twice():
    assert groups([outcome(status="died", detail="died: SIGSEGV")])[0].says == "died: SIGSEGV"


def test_declined_cases_are_counted_by_reason(tmp_path):
    outcomes = [
        outcome(f"c/{number}", "declined", detail=f"takes no attn_mask of rank {number}") for number in range(5)
    ]

    text = page(tmp_path, [*outcomes, outcome("d", "declined", detail="no causal")])

    assert "| `attention/loops` | cpu | 5 | takes no attn_mask of rank 0 |" in text
    assert "| `attention/loops` | cpu | 1 | no causal |" in text


def test_rows_of_an_earlier_run_are_named(tmp_path):
    old = replace(RUN, started="2025-01-01T00:00:00+00:00", versions={"torch": "2.9.0"}, commit="")

    text = page(tmp_path, [outcome()], earlier={"attention/loops": old, "attention/eager": old})
    many = page(tmp_path, [outcome()], earlier={f"attention/{number:02}": old for number in range(20)})

    assert "| 2025-01-01T00:00:00+00:00 | 2.9.0 | – | `attention/eager`, `attention/loops` |" in text
    assert ", `attention/11` and 8 more |" in many


# Examples


def test_examples_stand_printed_beside_computed(tmp_path):
    examples = [
        Example(
            *("d/2", "doc-001", "3.2", "weights", "[0.5, 0.25]", "[0.5000, 0.2500]"),
            {
                "attention/loops": "passed",
                "attention/flex": "wrong",
                "attention/jax": "missing",
                "attention/x": "declined",
            },
        ),
        Example("d/1", "doc-001", "3.1", "shape", "(2, 3)", "(2, 3)", {"attention/loops": "passed"}, "erratum E3"),
        Example("d/3", "doc-002", "1", "output"),
    ]

    text = page(tmp_path, [outcome()], examples=examples)

    first, second, third = text.split("## The documents' examples")[1].strip().splitlines()[2:]
    assert first == "| doc-001 | 3.1 | shape | (2, 3) | (2, 3) | 1 of 1 | erratum E3 |"
    assert "| \\[0.5, 0.25\\] | \\[0.5000, 0.2500\\] | 1 of 2; not `attention/flex` (wrong) |" in second
    assert third == "| doc-002 | 1 | output | – | – | not asked |  |"


# Escaping


@pytest.mark.parametrize("text", NASTY)
def test_whatever_a_submission_says_is_shown_as_it_is(text):
    _, row = shown(table(("a", "b", "c"), [("before", escaped(text), "after")]))

    assert row == ["before", plain(text), "after"]


@pytest.mark.parametrize("text", NASTY)
def test_whatever_a_submission_is_called_is_shown_as_it_is(text):
    _, row = shown(table(("a", "b", "c"), [("before", code(text), "after")]))

    assert row == ["before", plain(text), "after"]


def test_a_page_of_hostile_text_holds_no_html_and_no_link(tmp_path):
    outcomes, examples, gaps, conventions = [], [], {}, {}
    for position, text in enumerate(NASTY):
        for status in ("wrong", "declined", "missing"):
            outcomes.append(
                outcome(f"{status}/{text}", status, f"{text}{position}", detail=text, device=text, known=text[:9])
            )
            outcomes.append(outcome(f"{status}/{text}", status, f"{text}{position}", detail=text, dtype=text))
        examples.append(Example(text, text, text, text, text, text, {text: "wrong"}, text))
        gaps[f"{text}{position}"] = {text: text}
        conventions[f"{text}{position}"] = {text: {text: text}}
    hostile = replace(RUN, machine=replace(MACHINE, processor=NASTY[4], system=NASTY[6]), versions={"torch": NASTY[4]})

    files = write_conformance(
        tmp_path,
        outcomes,
        hostile,
        contracts={
            "attention": ContractFacts({NASTY[4]: NASTY[4]}, {f"wrong/{text}": frozenset({text}) for text in NASTY})
        },
        gaps=gaps,
        conventions=conventions,
        findings={text: text for text in NASTY},
        examples=examples,
        earlier=dict.fromkeys(NASTY, hostile),
    )
    index = write_index(tmp_path, {"amd": Recorded("amd", {"r1": hostile}, tuple(("r1", each) for each in outcomes))})

    for path in (files[0], index):
        tokens = rendered(path.read_text().splitlines())
        kinds = {token.type for token in tokens} | {child.type for token in tokens for child in token.children or ()}
        assert not kinds & {"html_block", "html_inline", "image", "em_open", "s_open", "link_open", "list_item_open"}
        assert not any(c < " " and c != "\n" for c in path.read_text())


def test_csvs_hold_one_line_per_row_and_no_formula(tmp_path):
    outcomes = [outcome(f"c/{n}", "wrong", detail=text, name=f"n{n}") for n, text in enumerate([*NASTY, "+1", "@x"])]

    files = write_conformance(tmp_path, outcomes, RUN)

    rows = list(csv.reader(io.StringIO((tmp_path / "conformance_failures.csv").read_text())))
    assert len(rows) == len(outcomes) + 1
    assert not any(cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row)
    assert len(pandas.read_csv(tmp_path / "conformance.csv")) == len(outcomes)
    assert [path.name for path in files] == [
        "conformance.md",
        "conformance.csv",
        "conformance_features.csv",
        "conformance_failures.csv",
        "conformance_examples.csv",
    ]


# The whole


def test_nothing_but_a_run_is_needed(tmp_path):
    text = page(tmp_path, [])

    assert "Nothing is recorded yet." in text
    assert summary_lines([]) == []
    assert len(pandas.read_csv(tmp_path / "conformance_features.csv")) == 0


def test_the_same_records_in_another_order_give_the_same_files(tmp_path):
    outcomes = [
        outcome(case, status, name, dtype=dtype, detail=f"{status} in {case} {dtype}")
        for case in ("small/plain", "mask/rows", "mask/causal")
        for name, status in (("attention/a", "passed"), ("attention/b", "wrong"), ("attention/c", "declined"))
        for dtype in ("bfloat16", "float32")
    ]
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()

    one = write_conformance(tmp_path / "one", outcomes, RUN, contracts=FACTS)
    two = write_conformance(tmp_path / "two", outcomes[::-1], RUN, contracts=FACTS)

    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_a_folder_that_is_a_file_is_refused_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match="cannot be written: Not a directory"):
        write_conformance(tmp_path / "file", [], RUN)


def test_index_names_each_machine_with_its_headline_and_pages(tmp_path):
    for name in ("b-4-cores", "a-2-cores"):
        with Results(tmp_path).open_run(replace(RUN, machine=replace(MACHINE, name=name))) as writer:
            writer.write(outcome())
            writer.write(outcome("b", "wrong"))
            writer.finish()
    write_conformance(tmp_path / "a-2-cores", [], RUN)

    text = write_index(tmp_path, read_outcomes(tmp_path)).read_text()

    assert (
        text.index("## a-2-cores") < text.index("[conformance](a-2-cores/conformance.md)") < text.index("## b-4-cores")
    )
    assert "(b-4-cores/conformance.md)" not in text
    assert cells(text, "a-2-cores")[2:] == ["abc123", "2.13.0", "1", "1/2", "1", "0"]
    assert text.count("| `attention/loops` | cpu | 1/2 |") == 2


def test_report_works_without_torch(tmp_path):
    program = f"""
import sys
from importlib.abc import MetaPathFinder
class NoTorch(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "jax", "onnxruntime"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, NoTorch())
from dataclasses import replace
from suite.machine import new_run
from suite.records import Outcome
from suite.report import summary_lines, write_conformance, write_index
from suite.store import Results, load, read_outcomes
with Results({str(tmp_path)!r}).open_run(new_run({{}}, "s")) as writer:
    writer.write(Outcome("attention/loops", "attention", "a", "float32", "cpu", "passed"))
    writer.finish()
found = read_outcomes({str(tmp_path)!r})
for name, recorded in found.items():
    write_conformance(f"{tmp_path}/{{name}}", recorded.outcomes, recorded.run, earlier=recorded.earlier)
write_index({str(tmp_path)!r}, found)
print(summary_lines(recorded.outcomes), len(load({str(tmp_path)!r})))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "['attention/loops  1/1 passed'] 1\n"
    assert (tmp_path / "README.md").exists()


# Terminal


def test_summary_has_a_line_each_and_failures_in_groups():
    outcomes = [
        *(outcome(f"c/{number}", "wrong", detail=UNSCALED) for number in range(3)),
        outcome("ok"),
        outcome("d", "declined"),
        outcome("k", "died", name="attention/torch_sdpa.flash", known="pt-1"),
        outcome(EVERY_CASE, "missing", "attention/jax", detail="No module named 'jax'"),
    ]

    assert summary_lines(outcomes) == [
        "attention/jax               missing: No module named 'jax'",
        "attention/loops             1/4 passed, declined 1, 3 wrong",
        f"  3 × wrong: {UNSCALED}",
        "      attnsuite check attention/loops --case c/0 --dtype float32",
        "attention/torch_sdpa.flash  0/1 passed, 1 known to fail",
        "  1 × known as pt-1, died",
        "      attnsuite check attention/torch_sdpa.flash --case k --dtype float32",
        "3 in all                    1/5 passed, declined 1, 3 wrong, 1 known to fail, 1 missing",
    ]


def test_what_has_no_name_in_one_dtype_belongs_to_the_mistake_that_has_one_in_another():
    halves = ("float16", "bfloat16")
    outcomes = [
        outcome("a", "wrong", detail=UNSCALED, dtype="float64"),
        outcome("a", "wrong", detail="output[0] is 1, should be 2"),
        *(outcome("a", "wrong", detail=f"output[{place}] is 3, should be 5", dtype=halves[place]) for place in (0, 1)),
        outcome("a", "raised", detail="ValueError", dtype="bfloat16"),
        outcome("b", "wrong", detail="output[0] is 3, should be 5", dtype="bfloat16"),
    ]

    found = [(group.count, group.example.detail, group.example.dtype) for group in groups(outcomes)]

    assert found == [
        (4, UNSCALED, "float64"),
        (1, "ValueError", "bfloat16"),
        (1, "output[0] is 3, should be 5", "bfloat16"),
    ]


def test_a_lone_implementation_says_what_it_declined_and_why():
    outcomes = [
        outcome("ok"),
        *(outcome(f"m/{number}", "declined", detail="takes no attn_mask") for number in range(3)),
        outcome("c", "declined", detail="takes no is_causal"),
    ]
    many = [outcome(f"m/{number}", "declined", detail=f"lacks {number}") for number in range(10)]

    assert summary_lines(outcomes, reasons=True) == [
        "attention/loops  1/1 passed, declined 4",
        "  3 × declined: takes no attn_mask",
        "  1 × declined: takes no is_causal",
    ]
    assert len(summary_lines(many, reasons=True)) == 10
    assert summary_lines(many, reasons=True)[-1] == "  2 × declined for 2 other reasons"
    assert summary_lines(outcomes) == ["attention/loops  1/1 passed, declined 4"]


def test_mistakes_that_have_a_name_come_first():
    unnamed = [outcome(f"a/{place}", "wrong", detail="output[0] is 3, should be 5") for place in range(3)]

    first, second = groups([*unnamed, outcome("b", "wrong", detail=UNSCALED)])

    assert (first.count, first.example.detail) == (1, UNSCALED)
    assert second.count == 3


def test_summary_names_the_device_where_there_are_several():
    lines = summary_lines([outcome(), outcome(device="cuda")])

    assert [line.split("  ")[0] for line in lines] == ["attention/loops on cpu", "attention/loops on cuda", "2 in all"]


def test_summary_obeys_no_control_codes():
    text = "\n".join(summary_lines([outcome(case, "wrong", case, detail=case) for case in NASTY if case]))

    assert not any(not c.isprintable() for c in text.replace("\n", ""))
