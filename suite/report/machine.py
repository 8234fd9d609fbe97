"""Writes all files of one machine: the pages of conformance, benchmark, learning and claims, and charts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from attnsuite.report.benchmark.page import benchmark
from attnsuite.report.charts.files import Charts, write_charts
from attnsuite.report.claims import claims
from attnsuite.report.conformance.page import conformance
from attnsuite.report.files import remove, rendered, write
from attnsuite.report.learning import CURVES, learning
from attnsuite.report.page import Page
from attnsuite.report.pytest_benchmark import write_benchmark_json
from attnsuite.results.store import Recorded

OF_CONFORMANCE = (
    *("conformance.md", "conformance.csv", "conformance_features.csv", "conformance_failures.csv"),
    *("conformance_declined.csv", "conformance_declared.csv", "conformance_examples.csv"),
)
"""The files that are removed where nothing is checked any more, but something measured."""
OF_BENCHMARK = ("benchmark.md", "benchmark.csv", "benchmark_growth.csv", "benchmark_ceilings.csv")
"""The files that are removed when no measurement is left."""
OF_LEARNING = ("learning.md", "learning.csv")
"""The files that are removed when nothing is left that was learned."""
OF_CLAIMS = ("claims.md", "claims.csv")
"""The files that are removed when no claim is left."""


def write_machine(folder: Path, recorded: Recorded, draws: bool = True) -> tuple[list[Path], str]:
    """Write all files of a machine and return their paths, and why charts were left out (empty if none were).

    Unless it `draws`, no chart is made, and one of a former report stays where it is still true.

    Raises UsageError when the folder cannot be written.
    """
    written = write_conformance(folder, recorded)
    charts = write_charts(folder, recorded, draws)
    for name in ("benchmark", "learning", "claims"):
        written += _write(folder, recorded, name, charts)
    written += [folder / chart.file for chart in charts.charts]
    exported = write_benchmark_json(folder, recorded)
    return [*written, *([exported] if exported else [])], charts.told(folder.parent)


def write_conformance(folder: Path | str, recorded: Recorded) -> list[Path]:
    """Write conformance.md and its CSVs into `folder` and return their paths; remove them where nothing was checked."""
    return _write(folder, recorded, "conformance", Charts())


def write_benchmark(folder: Path | str, recorded: Recorded, charts: Charts | None = None) -> list[Path]:
    """Write benchmark.md and its CSVs into `folder` and return their paths; if nothing was measured, remove them.

    `charts` are those that lie in `folder` already.
    """
    return _write(folder, recorded, "benchmark", charts or Charts())


def texts(recorded: Recorded, charts: Charts) -> dict[str, str]:
    """The texts of all pages and tables of a machine by the names of their files, where these charts lie beside them.

    benchmark.json is not among them: git ignores it.
    """
    found: dict[str, str] = {}
    for name, of in PAGES.items():
        if pages := of.pages(recorded, charts):
            found |= rendered(name, pages)
    return found


def _write(folder: Path | str, recorded: Recorded, name: str, charts: Charts) -> list[Path]:
    """Write a page and its tables into `folder` and return their paths; remove them where there is nothing to show."""
    if pages := PAGES[name].pages(recorded, charts):
        return write(folder, name, pages)
    remove(folder, *PAGES[name].files)
    return []


def _conformance(recorded: Recorded, charts: Charts) -> Iterable[Page]:
    checked = recorded.checked_run or not (recorded.measured_run or recorded.trained or recorded.examined)
    return conformance(recorded) if checked else ()


def _benchmark(recorded: Recorded, charts: Charts) -> Iterable[Page]:
    without_curves = tuple(chart for chart in charts.charts if not chart.file.startswith(CURVES))
    run = recorded.measured_run
    return benchmark(recorded, run, replace(charts, charts=without_curves)) if run else ()


def _learning(recorded: Recorded, charts: Charts) -> Iterable[Page]:
    return [learning(recorded, charts.charts)] if recorded.trained else ()


def _claims(recorded: Recorded, charts: Charts) -> Iterable[Page]:
    return [claims(recorded)] if recorded.examined else ()


class OfPage(NamedTuple):
    """How a page of a machine is made, which is nothing where there is nothing to show, and its files."""

    pages: Callable[[Recorded, Charts], Iterable[Page]]
    files: Sequence[str]


PAGES: Mapping[str, OfPage] = {
    "conformance": OfPage(_conformance, OF_CONFORMANCE),
    "benchmark": OfPage(_benchmark, OF_BENCHMARK),
    "learning": OfPage(_learning, OF_LEARNING),
    "claims": OfPage(_claims, OF_CLAIMS),
}
"""The pages of a machine by their names."""
