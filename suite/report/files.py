"""Pages → files beside the rows that they are made of: one in each form, and a CSV for each table for programs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from attnsuite.report import stamps
from attnsuite.report.ours import is_page, is_table, refuse_foreign, same_kind, text_of
from attnsuite.report.page import Block, Page, Table
from attnsuite.report.render import csv, html, markdown
from attnsuite.results.store import replace_file
from attnsuite.results.store.files import one_line

FORMS = (markdown,)
"""What a page is written as."""
LONGEST_PAGE = 250
"""Lines of a Markdown file: a longer one is not read. report.html and the CSV files have the rest."""


def write(folder: Path | str, name: str, pages: Iterable[Page], stamped: bool = False) -> list[Path]:
    """Write a page in every form and its tables into `folder`, atomically, and return their paths.

    Of several pages, the first that is short enough is written, or else the last. One of which no rows are kept is
    `stamped`. Raises UsageError when the folder cannot be written, and, before anything is, where it holds a file of
    such a name that was not written here.
    """
    written = rendered(name, pages)
    if stamped:
        written = stamps.stamped(written)
    for file, content in written.items():
        refuse_foreign(Path(folder) / file, partial(same_kind, content))
    for file, content in written.items():
        replace_file(Path(folder) / file, content)
    return [Path(folder) / file for file in written]


def refuse_foreign_page(folder: Path | str, name: str, page: Page) -> None:
    """Raise UsageError where the folder holds a page of this name that was not written here; `page` is of its kind."""
    for form in FORMS:
        refuse_foreign(Path(folder) / f"{name}{form.SUFFIX}", partial(same_kind, form.render(page)))


def as_markdown(page: Page) -> str:
    """The page as the text of a Markdown file, for who keeps it elsewhere."""
    return markdown.render(page)


def as_csv(table: Table) -> str:
    """The table as the text of a CSV file, for who keeps it elsewhere."""
    return csv.render(table)


def as_html(blocks: Iterable[Block], level: int, name: str) -> str:
    """Blocks as a part of an HTML page; `level` is that of headings in them, `name` what their tables are called."""
    return html.render(blocks, level, name)


def rendered(name: str, pages: Iterable[Page]) -> dict[str, str]:
    """The texts of the files of a page, by their names."""
    page = _first_that_fits(pages)
    found = {f"{name}{form.SUFFIX}": form.render(page) for form in FORMS}
    return found | {f"{key}{csv.SUFFIX}": csv.render(table) for key, table in page.data.items()}


def remove(folder: Path | str, *names: str) -> None:
    """Remove files of a former report; others of the same name stay. Raises UsageError when that cannot be done."""
    for path in (Path(folder) / name for name in names):
        text = text_of(path)
        if text is not None and (is_page(text) or is_table(text)):
            with one_line(path, "removed"):
                path.unlink(missing_ok=True)


def _first_that_fits(pages: Iterable[Page]) -> Page:
    for page in pages:
        if markdown.render(page).count("\n") <= LONGEST_PAGE:
            break
    return page
