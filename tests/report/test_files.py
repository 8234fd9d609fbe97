"""Pages as files: in every form, with a CSV for each table for programs; another form needs no change to any page."""

from html import escape
from types import SimpleNamespace

import pytest
from builders import NASTY, measured, outcome
from pages import TIMED, recorded

from attnsuite.model import UsageError
from attnsuite.report import files, write_machine
from attnsuite.report.page import Chart, Column, Note, Page, Points, Section, Table, note, table


def html(page):
    """A form that pages have never heard of: every block as HTML."""

    def cell(of):
        return f'<td data-kind="{of.kind}" data-value="{escape(str(of.value))}">{escape(of.words)}</td>'

    def block(of):
        match of:
            case Note(spans):
                return "".join(escape(span.words) for span in spans)
            case Points(points):
                return f"<ul>{''.join(map(block, points))}</ul>"
            case Table():
                return "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in of.shown.rows)
            case Chart(file, title):
                return f'<img src="{file}" alt="{escape(title)}">'
            case Section(title, inner):
                return f"<section><h2>{escape(title)}</h2>{''.join(map(block, inner))}</section>"

    return f"<h1>{escape(page.title)}</h1>{''.join(map(block, page.blocks))}"


@pytest.fixture
def with_html(monkeypatch):
    monkeypatch.setattr(files, "FORMS", (*files.FORMS, SimpleNamespace(SUFFIX=".html", render=html)))


def test_another_form_needs_no_change_to_any_page(with_html, tmp_path):
    rows = [measured(), measured("chunked", seconds=0.05)]
    outcomes = [outcome(), *(outcome(f"c/{place}", "wrong", detail=words) for place, words in enumerate(NASTY))]

    written, _ = write_machine(tmp_path, recorded(*rows, *outcomes, runs=(TIMED,)))

    assert {"conformance.html", "benchmark.html", "benchmark.md"} <= {path.name for path in written}
    benchmark = (tmp_path / "benchmark.html").read_text()
    assert 'data-kind="verdict" data-value="faster">2.00× faster (2.00–2.00)<' in benchmark
    assert 'data-kind="number" data-value="0.05">50.0 ms<' in benchmark
    conformance = (tmp_path / "conformance.html").read_text()
    assert 'data-kind="status"' not in conformance.split("Failures")[0]
    assert "<script>" not in conformance + benchmark


def test_of_several_pages_the_first_that_is_short_enough_is_written(monkeypatch, tmp_path):
    pages = [
        Page("t", tuple(map(note, words)), {"t": table((Column(key="a"),), [(words[0],)])})
        for words in ("long", "b", "c")
    ]
    monkeypatch.setattr(files, "LONGEST_PAGE", 3)

    written = files.write(tmp_path, "t", iter(pages))

    assert [path.name for path in written] == ["t.md", "t.csv"]
    assert (tmp_path / "t.md").read_text() == "# t\n\nb\n"
    assert (tmp_path / "t.csv").read_text() == "a\nb\n"


def test_a_folder_that_is_a_file_is_refused_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match="cannot be written: Not a directory"):
        files.write(tmp_path / "file", "t", [Page("t", ())])
