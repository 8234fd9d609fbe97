"""Pages and tables as files: atomic writes, no foreign file replaced, and no formula in a table."""

import csv
import io

import pytest
from builders import NASTY

from attnsuite.model import UsageError
from attnsuite.report.columns import csv_of
from attnsuite.report.files import page_opening, refuse_foreign, same_kind, texts, write
from attnsuite.report.page import Page, note


def test_a_page_has_a_table_file_for_each_of_its_tables(tmp_path):
    page = Page("t", (note("words"),), {"numbers": "a\nb\n"})

    written = write(tmp_path, texts("t", page))

    assert [path.name for path in written] == ["t.md", "numbers.csv"]
    assert [path.read_text() for path in written] == ["# t\n\nwords\n", "a\nb\n"]


@pytest.mark.parametrize("there", ["my notes\n", "# Another title\n", "<!doctype html><!-- mine -->"])
def test_a_foreign_file_refuses_the_whole_write(tmp_path, there):
    (tmp_path / "b.md").write_text(there)

    with pytest.raises(UsageError, match=r"b.md was not written by attnsuite: move it away"):
        write(tmp_path, {"a.md": "# t\n", "b.md": "# t\n"})

    assert not (tmp_path / "a.md").exists()
    assert (tmp_path / "b.md").read_text() == there


def test_a_link_without_a_target_is_refused(tmp_path):
    (tmp_path / "t.md").symlink_to(tmp_path / "nowhere")

    with pytest.raises(UsageError, match="is a link that leads nowhere: remove it"):
        refuse_foreign(tmp_path / "t.md", lambda text: True)


def test_a_folder_that_is_a_file_is_refused_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match="cannot be written: Not a directory"):
        write(tmp_path / "file", {"t.md": "# t\n"})


@pytest.mark.parametrize(
    ("written", "there", "same"),
    [
        ("# Conformance on a\n\nx\n", "# Conformance on b\n\ny\n", True),
        ("# Results\n\nWritten by me\n", "# Results\n\nmy own\n", False),
        ("a,b,c\n1,2,3\n", "a,b\n1,2\n", True),
        ("a,b,c\n1,2,3\n", "x,y\n1,2\n", False),
        ("<!doctype html><!-- attnsuite -->1", "<!doctype html><!-- attnsuite -->2", True),
        ("<!doctype html><!-- attnsuite -->1", "<!doctype html><html>", False),
    ],
)
def test_files_of_one_kind(written, there, same):
    assert same_kind(written, there) is same


def test_the_opening_of_a_page_is_without_its_machine():
    assert page_opening("# Timer on here\n\nWritten by me, never by hand\n") == ("# Timer", "Written by me")


@pytest.mark.parametrize("words", [*NASTY, "+1", "@x", "-x"])
def test_a_text_is_one_cell_of_one_line_and_no_formula(words):
    found = list(csv.reader(io.StringIO(csv_of(("a", "b"), [(words, "after")]))))

    assert len(found) == 2
    assert found[1][1] == "after"
    assert not found[1][0].startswith(("=", "+", "-", "@"))


def test_a_negative_number_is_no_formula_and_a_missing_one_is_empty():
    assert csv_of(("a", "b"), [(-1.5, None)]) == "a,b\n-1.5,\n"
