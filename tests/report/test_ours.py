"""A file in the folder of results that attnsuite has not written is refused, and never replaced or removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnsuite.model import UsageError
from attnsuite.report import refuse_foreign_index, write_index
from attnsuite.report.files import remove, write
from attnsuite.report.page import Column, Page, note, table

PAGE = Page("Conformance on here", (note("words"),), {"conformance": table([Column(key="implementation")], [["a"]])})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("conformance.md", "# My own notes\n"),
        ("conformance.md", ""),
        ("conformance.csv", "a,b\n1,2\n"),
        ("conformance.csv", "Not a table\n"),
        ("conformance.csv", ""),
    ],
)
def test_a_page_of_somebody_else_stays_and_nothing_is_written_beside_it(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)

    with pytest.raises(UsageError, match="was not written by attnsuite: move it away"):
        write(tmp_path, "conformance", [PAGE])

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: text}


def test_pages_of_ours_are_replaced_also_of_another_machine_or_with_other_columns(tmp_path: Path) -> None:
    (tmp_path / "conformance.md").write_text("# Conformance on there\n\nother words\n")
    (tmp_path / "conformance.csv").write_text("implementation,former\n1,2\n")

    write(tmp_path, "conformance", [PAGE])

    assert (tmp_path / "conformance.md").read_text() == "# Conformance on here\n\nwords\n"


def test_a_link_that_leads_nowhere_and_a_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "conformance.md").symlink_to("nosuch")
    with pytest.raises(UsageError, match="is a link that leads nowhere"):
        write(tmp_path, "conformance", [PAGE])
    (tmp_path / "conformance.md").unlink()
    (tmp_path / "conformance.md").mkdir()
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        write(tmp_path, "conformance", [PAGE])


def test_the_index_is_known_by_who_wrote_it(tmp_path: Path) -> None:
    write_index(tmp_path, {})
    write_index(tmp_path, {})
    (tmp_path / "README.md").write_text("# Results\n\nOf my own project.\n")

    with pytest.raises(UsageError, match=r"README\.md was not written by attnsuite"):
        write_index(tmp_path, {})


def test_the_index_is_ours_with_a_link_to_the_audit_too(tmp_path: Path) -> None:
    (tmp_path / "audit.md").write_text("# Audit\n")
    write_index(tmp_path, {})

    refuse_foreign_index(tmp_path)


def test_what_is_not_ours_is_not_removed(tmp_path: Path) -> None:
    mine = {"benchmark.md": "# Benchmark of my project\n", "notes.csv": "Name; Value\n"}
    for name, text in {**mine, "claims.md": "# Claims of the documents on here\n", "claims.csv": "claim,low\n"}.items():
        (tmp_path / name).write_text(text)

    remove(tmp_path, *mine, "claims.md", "claims.csv", "absent.md")

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == mine
