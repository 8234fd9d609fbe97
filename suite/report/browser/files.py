"""Writes report.html beside the index, with links to the pages and tables of each machine that are there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from attnsuite.report.browser.history import Line
from attnsuite.report.browser.page import OPENING, report_page
from attnsuite.report.index import AUDIT, AUDIT_TABLES, CHEATS, INDEX, REPORT
from attnsuite.report.machine import PAGES
from attnsuite.report.ours import refuse_foreign
from attnsuite.results.store import Recorded, replace_file


def write_report(folder: Path | str, machines: Mapping[str, Recorded], past: Sequence[Line] = ()) -> Path:
    """Write report.html into `folder` and return its path. Raises UsageError where somebody else's is there."""
    path = Path(folder) / REPORT
    refuse_foreign(path, lambda text: text.startswith(OPENING))
    replace_file(path, report_text(Path(folder), machines, past))
    return path


def report_text(folder: Path, machines: Mapping[str, Recorded], past: Sequence[Line] = ()) -> str:
    """What report.html is to hold in this folder, for who writes it and for who verifies it."""
    return report_page(machines, beside(folder, machines), past)


def beside(folder: Path, machines: Iterable[str]) -> list[str]:
    """The index, and the pages that exist, as paths relative to this one, each with its tables."""
    found = [f"{INDEX}.md", *(name for name in (AUDIT, *AUDIT_TABLES, CHEATS) if (folder / name).exists())]
    for name in sorted(machines):
        for of in PAGES.values():
            page, *tables = of.files
            found += [f"{name}/{file}" for file in (page, *tables) if (folder / name / page).exists()]
    return found
