"""Pages → files beside the rows that they are made of: one in each form, and a CSV for each table for programs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from suite.report import stamps
from suite.report.page import Page
from suite.report.render import csv, markdown
from suite.store import replace_file
from suite.store.files import one_line

FORMS = (markdown,)
"""What a page is written as."""
LONGEST_PAGE = 500_000
"""Bytes of a Markdown file; GitHub shows the source of a longer one."""


def write(folder: Path | str, name: str, pages: Iterable[Page], stamped: bool = False) -> list[Path]:
    """Write a page in every form and its tables into `folder`, atomically, and return their paths.

    Of several pages, the first that is short enough is written, or else the last. One of which no rows are kept is
    `stamped`. Raises UsageError when the folder cannot be written.
    """
    written = rendered(name, pages)
    if stamped:
        written = stamps.stamped(written)
    for file, content in written.items():
        replace_file(Path(folder) / file, content)
    return [Path(folder) / file for file in written]


def rendered(name: str, pages: Iterable[Page]) -> dict[str, str]:
    """The texts of the files of a page, by their names."""
    page = _first_that_fits(pages)
    found = {f"{name}{form.SUFFIX}": form.render(page) for form in FORMS}
    return found | {f"{key}{csv.SUFFIX}": csv.render(table) for key, table in page.data.items()}


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
