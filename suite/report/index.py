"""results/README.md: which machines there are, when and with what they ran, and what came out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from suite.records import Measurement, Outcome
from suite.report.benchmark import origin, pivots
from suite.report.benchmark.speed import tables
from suite.report.benchmark.views import shapes, views
from suite.report.conformance import facts
from suite.report.conformance.page import headline, provenance
from suite.report.conformance.tally import count
from suite.report.text import code, escaped, section, table
from suite.store import Recorded, replace_file

PAGES = ("conformance.md", "benchmark.md", "stopwatch.md")
CHARTS = {
    "time.svg": "time over sequence length",
    "memory.svg": "peak memory over sequence length",
    "tradeoff.svg": "memory against time",
}
"""The charts that a visitor sees first, each in words."""


def write_index(folder: Path | str, machines: Mapping[str, Recorded]) -> Path:
    """Write README.md into `folder`, a section for each machine, with links to the pages and charts in its folder."""
    folder = Path(folder)
    lines = ["# Results", "", "Written by `attnsuite report`, never by hand.", ""]
    lines += table(
        ("machine", "date", "commit", "torch", "contracts", "passed/asked", "failures", "known failures"),
        map(_row, _sorted(machines)),
    )
    for recorded in _sorted(machines):
        place = quote(recorded.machine)
        pages = [page for page in PAGES if (folder / recorded.machine / page).exists()]
        links = ", ".join(f"[{page.removesuffix('.md')}]({place}/{page})" for page in pages)
        lines += [f"## {escaped(recorded.machine)}", "", *([links, ""] if links else [])]
        lines += [*provenance(recorded.run), *_dates(recorded)]
        if recorded.outcomes or not recorded.measured:
            lines += section("Conformance", headline(recorded.outcomes), "###")
        lines += section("Benchmark", _benchmark(recorded, _charts(folder / recorded.machine, place)), "###")
        lines += section("Findings", _findings(recorded), "###")
    replace_file(folder / "README.md", "\n".join(lines).rstrip("\n") + "\n")
    return folder / "README.md"


def _sorted(machines: Mapping[str, Recorded]) -> list[Recorded]:
    return [machines[name] for name in sorted(machines) if machines[name].runs]


def _row(recorded: Recorded) -> tuple[str, ...]:
    counts, run = count(recorded.outcomes), recorded.run
    torch = run.versions.get("torch", "–")
    return (
        escaped(recorded.machine),
        escaped(origin.date(run)),
        escaped(run.commit or "–"),
        escaped(torch),
        str(len({outcome.contract for outcome in recorded.outcomes})),
        str(counts),
        f"{counts.failures}",
        f"{counts.known}",
    )


def _dates(recorded: Recorded) -> list[str]:
    """When it was checked and when measured, where that was not in one run."""
    checked, measured = recorded.checked_runs, recorded.measured_runs
    if not checked or (len(checked) == 1 and measured in ([], checked)):
        return []
    also = f", measured {escaped(origin.when(measured))}" if measured else ""
    return [f"Checked {escaped(origin.when(checked))}{also}.", ""]


def _benchmark(recorded: Recorded, charts: list[str]) -> list[str]:
    """The contract that comes first with its charts, the others in short."""
    seen = views(tables(recorded.measured), shapes(recorded))
    first = [view for view in seen if view.setting.contract == seen[0].setting.contract]
    lines = [line for view in first for line in pivots.headline(view, recorded, recorded.run)]
    others = [line for view in seen[len(first) :] for line in pivots.headline(view, recorded, recorded.run, short=True)]
    return [*lines, *charts, *others]


def _charts(folder: Path, place: str) -> list[str]:
    return [
        line
        for name, words in CHARTS.items()
        if (folder / name).exists()
        for line in (f"![{words}]({place}/{name})", "")
    ]


def _findings(recorded: Recorded) -> list[str]:
    """What shipping libraries are known to get wrong and got wrong here: who, in how many answers, and what it is."""
    who: dict[str, list[str]] = defaultdict(list)
    rows: list[Outcome | Measurement] = [*recorded.outcomes, *recorded.measurements]
    for of in rows:
        if of.known:
            who[of.known].append(of.implementation)
    said = facts.findings(recorded)
    lines = [
        (code(name), ", ".join(map(code, sorted(set(of)))), str(len(of)), escaped(said.get(name, "–"), 600))
        for name, of in sorted(who.items())
    ]
    return table(("finding", "implementation", "rows", "what it is"), lines)
