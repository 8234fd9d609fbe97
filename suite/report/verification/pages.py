"""The pages, tables and charts in a machine's folder held against its rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from attnsuite.model import Refusal
from attnsuite.report import pytest_benchmark
from attnsuite.report.charts.files import Charts
from attnsuite.report.machine import PAGES, texts
from attnsuite.report.verification.charts import Found, of_charts
from attnsuite.report.verification.stopwatch import of_stopwatch
from attnsuite.report.verification.texts import REMEDY, unlike
from attnsuite.results.store import Recorded


@dataclass(frozen=True)
class Pages:
    """What came of a machine's pages: what is amiss, how many files were compared, and what was not."""

    refusals: tuple[Refusal, ...]
    compared: int = 0
    not_checked: tuple[str, ...] = ()


def of_machine(folder: Path, recorded: Recorded) -> Pages:
    """Render what is recorded again and hold the files of a folder against it."""
    charts = of_charts(folder, recorded)
    try:
        due, amiss = _pages(folder, recorded, charts)
    except Exception as error:  # whatever a stranger's rows hold, this is about them
        why = f"no pages can be made of these rows ({type(error).__name__}: {error})"
        return Pages((Refusal(str(folder), "", why),))
    watched = of_stopwatch(folder, recorded)
    found = (*charts.refusals, *amiss, *_stale(folder, due), *_json(folder, recorded), *watched.refusals)
    drawn = () if charts.drawn else (f"drawing the {len(charts.due)} charts of {folder} again, for want of what draws",)
    there = len(due) + len(charts.due) - len(charts.missing) + watched.compared
    return Pages(found, there, (*drawn, *watched.not_checked))


def _pages(folder: Path, recorded: Recorded, charts: Found) -> tuple[dict[str, str], list[Refusal]]:
    """The texts that are due, and where the files differ: with charts or without, whichever they differ less from.

    A report that could not draw says so in its page.
    """
    due = texts(recorded, Charts(charts.charts(with_missing=True)))
    amiss = [refusal for name, text in due.items() for refusal in unlike(folder / name, text)]
    missing = [Refusal(str(folder / name), "", f"there is no such file; {REMEDY}") for name in charts.missing]
    if not missing:
        return due, amiss
    undrawn = texts(recorded, Charts(charts.charts(with_missing=False), len(missing)))
    amiss_undrawn = [refusal for name, text in undrawn.items() for refusal in unlike(folder / name, text)]
    found = [*missing, *amiss]
    return (undrawn, amiss_undrawn) if len(amiss_undrawn) < len(found) else (due, found)


def _stale(folder: Path, due: dict[str, str]) -> Iterator[Refusal]:
    """Pages and tables that no row is behind."""
    for name in sorted({name for of in PAGES.values() for name in of.files} - due.keys()):
        if (folder / name).exists():
            yield Refusal(str(folder / name), "", f"no rows give such a page; {REMEDY}")


def _json(folder: Path, recorded: Recorded) -> Iterator[Refusal]:
    """benchmark.json, where there is one."""
    path = folder / pytest_benchmark.FILE
    if path.exists():
        yield from unlike(path, pytest_benchmark.benchmark_json(recorded))
