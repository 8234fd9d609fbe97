"""results/README.md: which machines there are, when and with what they ran, and what came out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from suite.report.conformance import headline, provenance
from suite.report.tally import count
from suite.report.text import escaped, table
from suite.results import Recorded, replace_file

PAGES = ("conformance.md", "benchmark.md")


def write_index(folder: Path | str, machines: Mapping[str, Recorded]) -> Path:
    """Write README.md into `folder`, with a section for each machine and links to the pages that its folder has."""
    folder = Path(folder)
    lines = ["# Results", "", "Written by `attnsuite report`, never by hand.", ""]
    lines += table(("machine", "date", "torch", "passed/asked", "failures"), map(_row, _sorted(machines)))
    for recorded in _sorted(machines):
        pages = [page for page in PAGES if (folder / recorded.machine / page).exists()]
        links = ", ".join(f"[{page.removesuffix('.md')}]({quote(recorded.machine)}/{page})" for page in pages)
        lines += [f"## {escaped(recorded.machine)}", "", *([links, ""] if links else [])]
        lines += [*provenance(recorded.run), *headline(recorded.outcomes)]
    replace_file(folder / "README.md", "\n".join(lines).rstrip("\n") + "\n")
    return folder / "README.md"


def _sorted(machines: Mapping[str, Recorded]) -> list[Recorded]:
    return [machines[name] for name in sorted(machines) if machines[name].runs]


def _row(recorded: Recorded) -> tuple[str, ...]:
    counts, run = count(recorded.outcomes), recorded.run
    date, torch = (run.finished or run.started)[:10], run.versions.get("torch", "–")
    return escaped(recorded.machine), escaped(date), escaped(torch), str(counts), str(counts.failures)
