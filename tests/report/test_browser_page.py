"""report.html: what stands in it without scripts, what is escaped, how large it is, and that it stays the same."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser

import pytest
from builders import MACHINE, NASTY, RUN, measured, outcome, without_time
from msgspec.structs import replace
from pages import TIMED, page, recorded

from attnsuite.model import ContractFacts, Facts, UsageError
from attnsuite.model.statistics import Comparison
from attnsuite.report import write_report
from attnsuite.report.benchmark.overall import geometric_mean, overall, tied
from attnsuite.report.benchmark.views import material
from attnsuite.report.browser.history import Line, Moment
from attnsuite.report.browser.page import report_page
from attnsuite.report.verification.index import of_results
from attnsuite.results.store import facts as stored_facts


def times():
    """A baseline, one that is twice as fast on both workloads, and one that has no time."""
    for workload in ("vit/b16", "ladder/1k"):
        yield measured(workload=workload)
        yield measured("chunked", workload, seconds=0.05)
    yield without_time("flex", "declined", "lacks cpu: it is for a GPU")


def of_one(*rows):
    return {MACHINE.name: recorded(*rows)}


def data_of(text: str):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL).group(1))


class Elements(HTMLParser):
    """The elements of a page, as a browser would read them, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.text = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text.append(data)


def test_the_first_screen_says_what_was_asked_who_passed_how_fast_each_is_and_what_is_missing():
    outcomes = [outcome(name="attention/chunked"), outcome("mask/a", "wrong", "attention/chunked", detail="off by 2")]
    gone = outcome("*", "declined", "attention/flex", detail="lacks cpu: it is for a GPU")

    text = "".join(Elements(report_page(of_one(*outcomes, gone, *times()))).text)

    assert "3 implementations of 1 contract on AMD EPYC, 2 cores, on 2026-01-02 (torch 2.13.0, commit abc123)" in text
    assert "1 of 2 questions answered rightly, 2 tables of times." in text
    assert "✗ 1/2" in text
    assert "2.00× faster (2.00–2.00), 2 of 2" in text
    assert "Not here (declined): attention/flex: lacks cpu: it is for a GPU" in text


def test_the_matrix_says_passed_and_asked_with_a_sign_for_each_family():
    found = [
        outcome("mask/a"), outcome("mask/b", "wrong"), outcome("scale/a"), outcome("heads/a", "wrong", known="F-1"),
        outcome("window/a", "declined"),
    ]  # fmt: skip

    text = report_page(of_one(*found))

    for cell in ("<td class=f>✗ 1/2</td>", "<td class=p>✓ 1/1</td>", "<td class=k>◆ 0/1</td>", "<td>–</td>"):
        assert cell in text


@pytest.mark.parametrize("nasty", NASTY, ids=range(len(NASTY)))
def test_no_text_of_a_submission_becomes_an_element(nasty):
    honest = [outcome(detail="words"), outcome("a", "wrong", detail="words"), *times()]
    named = {"name": f"attention/x{nasty}"}
    hostile = [
        outcome(detail=nasty),
        outcome(f"a{nasty}", "wrong", detail=nasty, diagnosis=(nasty,), **named),
        *times(),
    ]

    tags, expected = (Elements(report_page(of_one(*rows)).partition('id="data"')[0]).tags for rows in (hostile, honest))

    assert {tag for tag, _ in tags} == {tag for tag, _ in expected}
    assert not [name for _, attributes in tags for name in attributes if name.startswith(("on", "style", "src"))]


@pytest.mark.parametrize("nasty", NASTY, ids=range(len(NASTY)))
def test_the_data_of_the_page_hold_every_text_and_end_no_element(nasty):
    text = report_page(of_one(outcome("a", "wrong", detail=nasty), *times()))

    assert {outcome(detail=nasty).detail} - {""} <= set(data_of(text)["details"])
    assert text.count("</script>") == 2


def test_a_policy_allows_the_one_style_and_the_one_script_and_nothing_else():
    text = report_page(of_one(outcome()))

    policy = next(of["content"] for tag, of in Elements(text).tags if "http-equiv" in of)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "http" not in policy


def test_the_page_is_the_same_for_the_same_records_and_verified_byte_by_byte(tmp_path):
    machines = of_one(outcome(), *times())
    path = write_report(tmp_path, machines)

    assert report_page(machines, ["README.md"]) == path.read_text()
    assert [each for each in of_results(tmp_path, machines) if each.path == str(path)] == []
    path.write_text(path.read_text().replace("2.00×", "3.00×"))
    assert [each for each in of_results(tmp_path, machines) if each.path == str(path)]


def test_a_page_of_somebody_else_stays(tmp_path):
    (tmp_path / "report.html").write_text("<p>mine</p>")

    with pytest.raises(UsageError, match=r"report\.html was not written by attnsuite"):
        write_report(tmp_path, of_one(outcome()))

    assert (tmp_path / "report.html").read_text() == "<p>mine</p>"


def test_a_page_without_data_says_how_to_make_some():
    assert "Nothing is recorded yet" in report_page({})


def test_a_page_takes_less_than_a_megabyte_for_a_thousand_rows():
    samples = [0.1 + place * 1e-7 for place in range(100)]
    rows = [measured(f"v{place}", f"ladder/{k}k", samples) for place in range(100) for k in (1, 2, 8, 16, 32)]
    answers = [outcome(f"mask/{place}", error_ratio=0.123) for place in range(500)]

    assert len(report_page(of_one(*rows, *answers)).encode()) < 1_000_000


def test_history_is_shown_where_there_is_some_and_hidden_where_there_is_none():
    line = Line(MACHINE.name, "attention/chunked", "vit/b16", [Moment("2026-01-01", "abc", 1.0, "1.00 s", 0.9, 1.1)])

    text = report_page(of_one(*times()), past=[line])

    assert '<section id="history"' in text
    assert data_of(text)["history"][0]["moments"] == [["2026-01-01", "abc", 1, 0.9, 1.1, "1.00 s"]]
    assert '<section id="history"' not in report_page(of_one(*times()))


def test_numbers_are_rounded_once_as_on_the_page_in_markdown():
    """Of 2.4947 four digits are 2.495, and three of these would be 2.50."""
    rows = [
        measured(seconds=[2.4947] * 24),
        measured("chunked", seconds=[1.0] * 24, memory={"resident": 1024.0 * 8.125, "retained": 0.0}),
        measured("loops", seconds=[2.4947**2] * 24, error_ratio=0.1),
    ]
    of = recorded(*rows)

    (table,) = data_of(report_page({MACHINE.name: of}))["machines"][0]["tables"]
    words = {row["i"]: row["words"] for row in table["rows"]}

    assert [each["time"] for each in words.values()] == ["1.00 s", "2.49 s", "6.22 s"]
    assert [each.get("speedup") for each in words.values()] == ["2.49× faster", None, "2.49× slower"]
    markdown = page(*rows)
    for row in words.values():
        for name in ("time", "memory", "error"):
            assert f"| {row[name]} |" in markdown, (name, row)
        if "speedup" in row:
            assert f"| {row['speedup']} ({row['ends']}) |" in markdown


def test_a_finding_has_one_row_whatever_its_failures_say():
    found = [
        outcome(f"mask/{place}", "wrong", name, detail=f"off by {'abcdefghijkl'[place]}", known="F-1")
        for name in ("attention/flash", "attention/math")
        for place in range(12)
    ]

    text = report_page(of_one(*found))

    row = re.search(r"<h4>Known failures</h4>.*?<tbody>\n(.*?)</tbody>", text, re.DOTALL).group(1)
    assert row.count("<tr>") == 1
    for words in ("F-1", "attention/flash</code>, <code>attention/math", ">24<", "--case mask/0"):
        assert words in row


def test_why_a_case_is_asked_is_noted_and_of_earlier_runs_nothing_is_made_up():
    facts = Facts({"attention": ContractFacts(cases={"mask/a": ()}, why={"mask/a": "masks may be broadcast"})})
    run = replace(RUN, facts=facts)

    data = data_of(report_page({MACHINE.name: recorded(outcome("mask/a"), runs=(run,))}))

    assert data["contracts"]["attention"]["why"] == {"mask/a": "masks may be broadcast"}
    assert stored_facts.facts(stored_facts.facts_row(facts)) == facts
    assert "why" not in stored_facts.facts_row(TIMED.facts)["contracts"]["attention"]


def test_the_geometric_mean_has_the_means_of_the_ends_as_its_interval():
    two = [Comparison(2.0, 1.0, 4.0, 20, "faster"), Comparison(8.0, 4.0, 16.0, 20, "faster")]

    found = geometric_mean(two)

    assert (found.median, found.low, found.high) == pytest.approx((4, 2, 8))
    assert geometric_mean([*two, Comparison(1.0, 0.0, math.inf, 3, "unclear")]).high == math.inf
    assert geometric_mean([]) is None


def test_speed_over_all_counts_the_tables_in_which_both_were_timed():
    found = {each.name: each for each in overall(material(recorded(*times())).tables)}

    assert found["chunked"].words == "2.00× faster (2.00–2.00)"
    assert (found["chunked"].compared, found["chunked"].due) == (2, 2)
    assert found["matmul"].words == "baseline"
    assert found["flex"].speedup is None


def test_rows_whose_intervals_overlap_are_not_told_from_the_fastest():
    rows = [measured(seconds=0.1), measured("chunked", seconds=0.1003), measured("flex", seconds=0.2)]

    assert [row.name for row in tied(material(recorded(*rows)).tables[0])] == ["matmul", "chunked"]
