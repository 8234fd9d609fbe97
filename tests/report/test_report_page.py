"""report.html: its sentences, verdicts and numbers, and escaped texts of submissions."""

import base64
import csv
import hashlib
import json
import re
from pathlib import Path

import pytest
from builders import NASTY, RUN, measured, outcome, recorded, run, without_time

from attnsuite.model import ContractFacts, Facts, FindingFacts, WorkloadFacts
from attnsuite.report import outdated_pages, pages, write_report
from attnsuite.report.index import first_mistake
from attnsuite.report.report_page import GROUPS, group_of, report_text
from attnsuite.report.timed import tables_of

FACTS = Facts(
    {"attention": ContractFacts(baseline="matmul")},
    findings={"B-1": FindingFacts("reads past the end", "x", "torch>=2.9", "import torch", "javascript:alert(1)")},
    workloads={"attention": {"ladder/16k": WorkloadFacts("ladder", "batch 1, length 16384", "growth", 16384)}},
)
HERE = run("r1", "2026-01-02", FACTS)
MACHINE = RUN.machine.name


def page(*rows):
    of = recorded({"r1": rows}, [HERE])
    return report_text({MACHINE: of}, {MACHINE: tables_of(of)}, Path("nowhere"))


def data(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


def recommendation(*rows):
    return data(page(*rows))["machines"][0]["tables"][0]["recommendation"]


FAST, SLOW = measured("flash", "ladder/16k", 0.05), measured("matmul", "ladder/16k", 0.1)
PASSED = [outcome(name=f"attention/{name}") for name in ("flash", "matmul")]
KNOWN = outcome("mask/b", "failed", "attention/flash", known="B-1")


def test_the_fastest_that_passes_every_test_is_the_only_recommendation():
    assert recommendation(FAST, SLOW, *PASSED) == [
        "Use flash, 50.0 ms, 3.94 MiB: it passes all 1 tests, and is the fastest."
    ]


@pytest.mark.parametrize(
    ("rows", "doubt"),
    [
        ([KNOWN, *PASSED], "1 of 2 tests passed, 1 failure of known bugs; the tests of this shape passed"),
        ([outcome("mask/b", "failed", "attention/flash"), *PASSED], "1 of 2 tests passed, 1 failed"),
        (PASSED[1:], "not tested on this machine"),
    ],
)
def test_the_fastest_without_a_failure_comes_before_the_fastest(rows, doubt):
    first, second = recommendation(FAST, SLOW, *rows)

    assert first == "Use matmul, 100 ms, 3.94 MiB: it passes all 1 tests."
    assert second.startswith(f"Fastest: flash, 50.0 ms, 3.94 MiB; {doubt}")


def test_implementations_with_overlapping_intervals_are_named_with_their_memory():
    close = measured("chunked", "ladder/16k", 0.0501)

    assert recommendation(FAST, SLOW, close, *PASSED)[1] == "Intervals overlap with: chunked (3.94 MiB)."


def test_the_page_says_so_where_each_has_a_failure():
    assert recommendation(FAST, SLOW)[0].startswith("Each implementation has a known bug")


def test_a_row_without_a_time_has_its_reason():
    absent = without_time("flash", "out_of_memory", "17 GB", "ladder/16k")

    (table,) = data(page(SLOW, absent))["machines"][0]["tables"]

    assert [row["name"] for row in table["rows"]] == ["matmul"]
    assert table["absent"] == "No time: flash: out of memory."


def test_a_table_has_ten_rows_and_names_the_slower_ones_below():
    rows = [measured(f"a{number:02}", "ladder/16k", 0.1 + number) for number in range(12)]

    (table,) = data(page(*rows))["machines"][0]["tables"]

    assert [row["name"] for row in table["rows"]] == [f"a{number:02}" for number in range(10)]
    assert table["absent"] == "Slower: a10, a11."


def test_the_page_without_results_names_the_command():
    text = report_text({}, {}, Path("nowhere"))

    assert "<code>attnsuite run</code>" in text


def test_a_known_bug_is_a_card_with_an_anchor_and_a_command():
    text = page(FAST, SLOW, *PASSED, KNOWN)

    assert '<article class="bug" id="bug-B-1"' in text
    assert "attnsuite check attention/flash --case mask/b --dtype float32" in text
    assert all(words in text for words in ("reads past the end", "torch&gt;=2.9", "import torch"))
    assert 'href="javascript' not in text


def test_failures_stand_before_known_bugs():
    failed = outcome("mask/c", "failed", "attention/matmul", detail="off by 2.5")

    text = page(FAST, SLOW, *PASSED, KNOWN, failed)

    assert text.index("off by 2.5") < text.index('id="bug-B-1"')


def test_every_family_of_attention_has_a_group():
    from attnsuite.contracts import contract

    families = {case.name.partition("/")[0] for case in contract("attention").cases()}

    assert families == {family for group in GROUPS.values() for family in group} & families
    assert len(GROUPS) <= 10
    assert group_of("window/both") == "causal, window"


@pytest.mark.parametrize("words", [text for text in NASTY if text])
def test_no_text_of_a_submission_becomes_markup(words):
    hostile = outcome("mask/b", "failed", f"attention/{words}", detail=words, known=words)
    plain = page(FAST, SLOW, outcome("mask/b", "failed", "attention/x", detail="x", known="x"))

    text = page(FAST, SLOW, hostile)

    assert re.findall(r"<\w+", text) == re.findall(r"<\w+", plain)
    assert data(text)["bugs"] == [hostile.known]


def test_only_the_page_s_own_style_and_script_are_allowed():
    text = page(FAST, SLOW)

    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1].replace("&#39;", "'")
    script = re.search(r"<script>(.*?)</script>", text, re.S)[1]

    assert "default-src 'none'" in policy
    assert f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in policy
    assert not re.search(r'(src|href)="(https?:)?//', text)
    assert " style=" not in text


def test_the_audits_are_counted_from_their_tables(tmp_path):
    (tmp_path / "audit.csv").write_text("contract,mutants,killed,variants,accused\na,10,9,3,0\nb,5,5,2,1\n")
    (tmp_path / "m").mkdir()
    rows = ["table,threads,injected,verdict", "0,1,0.0,same", "0,1,0.0,faster", "0,1,0.05,slower", "0,2,0.05,same"]
    (tmp_path / "m" / "stopwatch.csv").write_text("\n".join(rows))

    text = report_text({}, {}, tmp_path)

    assert "14 of 15 implementations with one known mistake fail a test" in text
    assert "1 of 5 correct implementations" in text
    assert "1 of 2 comparisons of an implementation with itself differ" in text
    assert "1 of 1 slow-downs by 5 % are reported" in text


def test_pages_of_the_same_rows_are_the_same_and_another_is_named(tmp_path):
    machines = {MACHINE: recorded({"r1": [FAST, SLOW, *PASSED]}, [HERE])}
    (tmp_path / MACHINE).mkdir()
    written = write_report(tmp_path, machines, draws=False)

    assert [*outdated_pages(tmp_path, machines)] == []
    written[-1].write_text(written[-1].read_text().replace("50.0 ms", "49.0 ms"))
    ((path, why),) = outdated_pages(tmp_path, machines)
    assert (path, why.partition(";")[0]) == (written[-1], "it differs from the rows")


def test_the_table_for_spreadsheets_has_a_row_per_measurement(tmp_path):
    machines = {MACHINE: recorded({"r1": [FAST, SLOW]}, [HERE])}

    rows = list(csv.DictReader(pages(tmp_path, machines)[f"{MACHINE}/benchmark.csv"].splitlines()))

    assert [(row["implementation"], float(row["median"]), row["verdict"]) for row in rows] == [
        ("attention/flash", 0.05, "faster"),
        ("attention/matmul", 0.1, "baseline"),
    ]
    assert rows[0]["memory_output"] == str(2.0**19)


def test_the_index_links_to_what_exists_alone(tmp_path):
    machines = {MACHINE: recorded({"r1": [FAST, SLOW, *PASSED]}, [HERE])}

    text = pages(tmp_path, machines)["README.md"]

    assert "[report.html](report.html)" in text
    assert "audit.md" not in text
    assert f"[cases.html]({MACHINE}/cases.html)" in text
    assert "| `flash` | 1/1 | – | 50.0 ms, 2.00× faster |" in text


def test_the_index_names_the_status_of_failures(tmp_path):
    rows = [outcome("*", "error", "attention/mine"), outcome("a", "failed", "attention/mine")]

    text = pages(tmp_path, {MACHINE: recorded({"r1": rows}, [HERE])})["README.md"]

    assert "| `mine` | 0/2 | 1 failed, 1 error |" in text


def test_the_first_diagnosed_failure_names_the_mistake():
    details = (
        "output[0] is 1, should be 2",
        'equals "divides_by_width": the scores are divided by d',
        'equals "unscaled"',
    )
    passed, *failed = outcome(detail=details[-1]), *(outcome(status="failed", detail=detail) for detail in details)

    assert first_mistake([passed, *failed]) == "divides_by_width"
    assert first_mistake([passed, failed[0]]) == ""


def test_files_of_several_contracts_have_a_row_each(tmp_path):
    contracts = ("attention", "multi_head_attention", "transformer")
    rows = [outcome("a", "passed", f"{name}/ben") for name in contracts]

    text = pages(tmp_path, {MACHINE: recorded({"r1": rows}, [HERE])})["README.md"]

    assert [name for name in contracts if f"| `{name}/ben` | 1/1 |" in text] == [*contracts]
    assert "other contracts" not in text
