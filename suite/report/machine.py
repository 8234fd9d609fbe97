"""Writes all files of one machine: the pages of conformance and benchmark, their tables, and the charts."""

from __future__ import annotations

from pathlib import Path

from suite.report.benchmark.page import benchmark
from suite.report.charts.files import Charts, write_charts
from suite.report.conformance.page import conformance
from suite.report.files import remove, write
from suite.report.pytest_benchmark import write_benchmark_json
from suite.store import Recorded

OF_CONFORMANCE = (
    *("conformance.md", "conformance.csv", "conformance_features.csv", "conformance_failures.csv"),
    "conformance_examples.csv",
)
"""The files that are removed where nothing is checked any more, but something measured."""
OF_BENCHMARK = ("benchmark.md", "benchmark.csv", "benchmark_growth.csv", "benchmark_ceilings.csv")
"""The files that are removed when no measurement is left."""


def write_machine(folder: Path, recorded: Recorded) -> tuple[list[Path], str]:
    """Write all files of a machine and return their paths, and why charts were left out (empty if none were).

    Raises UsageError when the folder cannot be written.
    """
    written = write_conformance(folder, recorded)
    charts = write_charts(folder, recorded)
    written += [*write_benchmark(folder, recorded, charts), *(folder / chart.file for chart in charts.charts)]
    exported = write_benchmark_json(folder, recorded)
    return [*written, *([exported] if exported else [])], charts.note


def write_conformance(folder: Path | str, recorded: Recorded) -> list[Path]:
    """Write conformance.md and its CSVs into `folder` and return their paths; remove them where all is measurements."""
    if recorded.checked_run or not recorded.measured_run:
        return write(folder, "conformance", [conformance(recorded)])
    remove(folder, *OF_CONFORMANCE)
    return []


def write_benchmark(folder: Path | str, recorded: Recorded, charts: Charts | None = None) -> list[Path]:
    """Write benchmark.md and its CSVs into `folder` and return their paths; if nothing was measured, remove them.

    `charts` are those that lie in `folder` already.
    """
    if run := recorded.measured_run:
        return write(folder, "benchmark", benchmark(recorded, run, charts or Charts()))
    remove(folder, *OF_BENCHMARK)
    return []
