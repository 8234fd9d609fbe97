"""Rows → report.html, README.md, tables for spreadsheets, charts, and terminal lines. This package runs nothing."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from attnsuite.report.cases_page import CASES, cases_text
from attnsuite.report.charts import write_charts
from attnsuite.report.columns import benchmark_csv, conformance_csv
from attnsuite.report.files import text_of, texts, write
from attnsuite.report.index import index
from attnsuite.report.index import refuse_foreign_index as refuse_foreign_index
from attnsuite.report.report_page import REPORT, report_text
from attnsuite.report.summary import benchmark_lines as benchmark_lines
from attnsuite.report.summary import summary_lines as summary_lines
from attnsuite.report.timed import tables_of
from attnsuite.results import MachineRecord


def write_report(folder: Path, machines: Mapping[str, MachineRecord], draws: bool = True) -> list[Path]:
    """Write every page, table and chart into the folder of results and return their paths, report.html last.

    Without `draws`, charts stay unchanged. Raises UsageError for a file that cannot be written or is foreign.
    """
    refuse_foreign_index(folder)
    written: list[Path] = []
    for name, recorded in machines.items():
        written += write_charts(folder / name, recorded) if draws else []
    return [*written, *write(folder, pages(folder, machines))]


def pages(folder: Path, machines: Mapping[str, MachineRecord]) -> dict[str, str]:
    """The texts of all pages and tables, by path in the folder of results; the index and report.html come last."""
    texts_by_path: dict[str, str] = {}
    tables = {name: tables_of(recorded) for name, recorded in machines.items()}
    for name, recorded in machines.items():
        if recorded.outcomes:
            texts_by_path[f"{name}/conformance.csv"] = conformance_csv(recorded)
            texts_by_path[f"{name}/{CASES}"] = cases_text(recorded)
        if recorded.measured:
            texts_by_path[f"{name}/benchmark.csv"] = benchmark_csv(recorded, tables[name])
    texts_by_path |= texts("README", index(machines, tables, folder, texts_by_path))
    return texts_by_path | {REPORT: report_text(machines, tables, folder)}


def outdated_pages(folder: Path, machines: Mapping[str, MachineRecord]) -> Iterator[tuple[Path, str]]:
    """Each page or table that differs from the rows, with the command that renews it. Missing files are no error."""
    for name, text in pages(folder, machines).items():
        existing = text_of(folder / name)
        if existing is not None and existing != text:
            yield folder / name, f"it differs from the rows; `attnsuite report --results {folder}` renews it"
