"""Writes all files of one machine: the pages of conformance, benchmark and learning, their tables, and the charts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from suite.report.benchmark.page import benchmark
from suite.report.charts.files import Charts, write_charts
from suite.report.conformance.page import conformance
from suite.report.files import remove, write
from suite.report.learning import CURVES, learning
from suite.report.pytest_benchmark import write_benchmark_json
from suite.store import Recorded

OF_CONFORMANCE = (
    *("conformance.md", "conformance.csv", "conformance_features.csv", "conformance_failures.csv"),
    "conformance_examples.csv",
)
"""The files that are removed where nothing is checked any more, but something measured."""
OF_BENCHMARK = ("benchmark.md", "benchmark.csv", "benchmark_growth.csv", "benchmark_ceilings.csv")
"""The files that are removed when no measurement is left."""
OF_LEARNING = ("learning.md", "learning.csv")
"""The files that are removed when nothing is left that was learned."""


def write_machine(folder: Path, recorded: Recorded) -> tuple[list[Path], str]:
    """Write all files of a machine and return their paths, and why charts were left out (empty if none were).

    Raises UsageError when the folder cannot be written.
    """
    written = write_conformance(folder, recorded)
    charts = write_charts(folder, recorded)
    written += [*write_benchmark(folder, recorded, _benchmarked(charts)), *write_learning(folder, recorded, charts)]
    written += [*(folder / chart.file for chart in charts.charts)]
    exported = write_benchmark_json(folder, recorded)
    return [*written, *([exported] if exported else [])], charts.note


def write_conformance(folder: Path | str, recorded: Recorded) -> list[Path]:
    """Write conformance.md and its CSVs into `folder` and return their paths; remove them where nothing was checked."""
    if recorded.checked_run or not (recorded.measured_run or recorded.trained):
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


def write_learning(folder: Path | str, recorded: Recorded, charts: Charts) -> list[Path]:
    """Write learning.md and its CSV into `folder` and return their paths; if nothing was learned, remove them."""
    if recorded.trained:
        return write(folder, "learning", [learning(recorded, charts.charts)])
    remove(folder, *OF_LEARNING)
    return []


def _benchmarked(charts: Charts) -> Charts:
    """The charts without loss curves."""
    return replace(charts, charts=tuple(chart for chart in charts.charts if not chart.file.startswith(CURVES)))
