"""Rows → report.html, README.md, tables for spreadsheets, charts, and lines of a terminal; runs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from attnsuite.report.cases_page import CASES, cases_text
from attnsuite.report.charts import write_charts
from attnsuite.report.columns import benchmark_table, conformance_table
from attnsuite.report.csv_text import render as csv_of
from attnsuite.report.files import text_of, texts, write
from attnsuite.report.index import index
from attnsuite.report.index import refuse_foreign_index as refuse_foreign_index
from attnsuite.report.pytest_benchmark import write_benchmark_json
from attnsuite.report.report_page import REPORT, report_text
from attnsuite.report.summary import benchmark_lines as benchmark_lines
from attnsuite.report.summary import summary_lines as summary_lines
from attnsuite.report.timed import tables_of
from attnsuite.results import Recorded


def write_report(folder: Path, machines: Mapping[str, Recorded], draws: bool = True) -> list[Path]:
    """Write every page, table and chart into the folder of results and return their paths, report.html last.

    Without `draws`, charts are left as they are. Raises UsageError when a file cannot be written, and where one that
    attnsuite did not write has its place.
    """
    refuse_foreign_index(folder)
    written: list[Path] = []
    for name, recorded in machines.items():
        written += write_charts(folder / name, recorded) if draws else []
        exported = write_benchmark_json(folder / name, recorded)
        written += [exported] if exported else []
    return [*written, *write(folder, pages(folder, machines))]


def pages(folder: Path, machines: Mapping[str, Recorded]) -> dict[str, str]:
    """The texts of all pages and tables by their paths in the folder of results; the index and report.html last."""
    found: dict[str, str] = {}
    timed = {name: tables_of(recorded) for name, recorded in machines.items()}
    for name, recorded in machines.items():
        if recorded.outcomes:
            found[f"{name}/conformance.csv"] = csv_of(conformance_table(recorded))
            found[f"{name}/{CASES}"] = cases_text(recorded)
        if recorded.measured:
            found[f"{name}/benchmark.csv"] = csv_of(benchmark_table(recorded, timed[name]))
    found |= texts("README", index(machines, timed, folder, found))
    return found | {REPORT: report_text(machines, timed, folder)}


def outdated_pages(folder: Path, machines: Mapping[str, Recorded]) -> Iterator[tuple[Path, str]]:
    """Each page or table that the rows do not give again, with what to do; a file that is not there is no error."""
    for name, text in pages(folder, machines).items():
        there = text_of(folder / name)
        if there is not None and there != text:
            yield folder / name, f"the rows give another page; `attnsuite report --results {folder}` makes it again"
