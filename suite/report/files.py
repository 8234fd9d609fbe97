"""Pages → files beside the rows that they are made of: one in each form, and a CSV for each table for programs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from suite.report.page import Page
from suite.report.render import csv, markdown
from suite.store import replace_file
from suite.store.files import one_line

FORMS = (markdown,)
"""What a page is written as."""
LONGEST_PAGE = 500_000
"""Bytes of a Markdown file; GitHub shows the source of a longer one."""


def write(folder: Path | str, name: str, pages: Iterable[Page]) -> list[Path]:
    """Write a page in every form and its tables into `folder`, atomically, and return their paths.

    Of several pages, the first that is short enough is written, or else the last. Raises UsageError when the folder
    cannot be written.
    """
    page = _first_that_fits(pages)
    written = {f"{name}{form.SUFFIX}": form.render(page) for form in FORMS}
    written |= {f"{key}{csv.SUFFIX}": csv.render(table) for key, table in page.data.items()}
    for file, content in written.items():
        replace_file(Path(folder) / file, content)
    return [Path(folder) / file for file in written]


def as_markdown(page: Page) -> str:
    """The page as the text of a Markdown file, for who keeps it elsewhere."""
    return markdown.render(page)


def remove(folder: Path | str, *names: str) -> None:
    """Remove files of a former report. Raises UsageError when that cannot be done."""
    for name in names:
        path = Path(folder) / name
        with one_line(path, "removed"):
            path.unlink(missing_ok=True)


def _first_that_fits(pages: Iterable[Page]) -> Page:
    for page in pages:
        if len(markdown.render(page).encode()) <= LONGEST_PAGE:
            break
    return page
