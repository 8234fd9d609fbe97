"""results/README.md: each machine with the dates and versions of its runs, and their results in short."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from attnsuite.model import Measurement, Outcome
from attnsuite.report import facts, provenance
from attnsuite.report.benchmark import pivots
from attnsuite.report.benchmark.views import material
from attnsuite.report.benchmark.wording import ATTENTION
from attnsuite.report.cells import NOTHING, Span, code, joined, listed, said, text
from attnsuite.report.conformance.page import LONGEST_FINDING, headline, sample_note
from attnsuite.report.conformance.tally import by_implementation, count
from attnsuite.report.files import refuse_foreign_page, write
from attnsuite.report.page import Block, Chart, Note, Page, Section, Table, blocks, note, section, table
from attnsuite.results.store import Recorded

INDEX = "README"
"""The name of the index, without its ending."""
REPORT = "report.html"
"""The page for a browser, beside the index."""
AUDIT = "audit.md"
"""The audit of the suite, beside the index."""
CHEATS = "cheats.md"
"""What became of submissions that try to fool the suite, beside the index."""
AUDIT_TABLES = ("audit_families.csv", "audit_strangers.csv", "audit_deviations.csv")
"""Its tables, beside it. An audit of an earlier version has none."""
PAGES = ("conformance.md", "benchmark.md", "learning.md", "claims.md", "stopwatch.md")
"""The pages of a machine that the index links to."""
CHARTS = {
    "time.svg": "time over sequence length",
    "memory.svg": "peak memory over sequence length",
    "tradeoff.svg": "memory against time",
}
"""The charts of a machine that the index shows, each with what it shows in words."""


def refuse_foreign_index(folder: Path | str) -> None:
    """Raise UsageError where the README.md of a folder is somebody else's, before minutes are spent on results."""
    refuse_foreign_page(folder, "README", index({}, []))


def write_index(folder: Path | str, machines: Mapping[str, Recorded]) -> Path:
    """Write README.md into `folder`, a section for each machine, with links to the pages and charts in its folder."""
    folder = Path(folder)
    return write(folder, INDEX, [index(machines, there(folder, machines))])[0]


def there(folder: Path, machines: Iterable[str]) -> list[str]:
    """The pages and charts that exist, as paths relative to the index."""
    of_machines = (f"{name}/{file}" for name in machines for file in (*PAGES, *CHARTS))
    return [name for name in (AUDIT, CHEATS, REPORT, *of_machines) if (folder / name).exists()]


def index(machines: Mapping[str, Recorded], there: list[str]) -> Page:
    """The page. `there` are the pages and charts that exist, as paths relative to it."""
    shown = [machines[name] for name in sorted(machines) if machines[name].runs]
    heads = ("machine", "date", "commit", "torch", "contracts", "passed/asked", "failures", "known failures")
    of_all = table(heads, map(_row, shown))
    audits = [Span(page.removesuffix(".md"), link=page) for page in (AUDIT, CHEATS) if page in there]
    audit = (" How the suite audits itself: ", joined(audits), ".") if audits else ()
    browser = (" To choose, sort and search in a browser: ", Span(REPORT, link=REPORT), ".") if REPORT in there else ()
    opening = note("Written by ", code("attnsuite report"), ", never by hand.", *browser, *audit)
    machines_of = (_machine(recorded, there) for recorded in shown)
    return Page("Results", blocks(opening, of_all, machines_of, section("Findings", _findings(shown))))


def _machine(recorded: Recorded, there: list[str]) -> Section:
    def place(file: str) -> str:
        return f"{recorded.machine}/{file}"

    links = [Span(page.removesuffix(".md"), link=place(page)) for page in PAGES if place(page) in there]
    charts = [Chart(place(name), words) for name, words in CHARTS.items() if place(name) in there]
    checked = recorded.outcomes or not (recorded.measured or recorded.trained or recorded.examined)
    return section(
        recorded.machine,
        note(joined(links)),
        provenance.run_note(recorded.run),
        _dates(recorded),
        section("Conformance", _conformance(recorded) if checked else ()),
        section("Benchmark", _benchmark(recorded, charts)),
    )


def _row(recorded: Recorded) -> list[object]:
    counts, run = count(recorded.outcomes), recorded.run
    contracts = {outcome.contract for outcome in recorded.outcomes}
    told = (recorded.machine, provenance.date(run), run.commit or NOTHING, run.versions.get("torch", NOTHING))
    return [*told, len(contracts), str(counts), counts.failures, counts.known]


def _dates(recorded: Recorded) -> Note:
    """When the machine was checked and when measured; nothing if one run did both, for its date stands above."""
    checked, measured = recorded.checked_runs, recorded.measured_runs
    if not checked or (len(checked) == 1 and measured in ([], checked)):
        return note()
    also = f", measured {provenance.when(measured)}" if measured else ""
    return note(f"Checked {provenance.when(checked)}{also}.")


def _conformance(recorded: Recorded) -> Iterator[Block]:
    """Who passes what of the first contract, and a line for each of the others."""
    outcomes, sampled = recorded.outcomes, facts.sampled(recorded)
    by_contract: dict[str, list[Outcome]] = defaultdict(list)
    for of in outcomes:
        by_contract[of.contract].append(of)
    first_contract, *others = sorted(by_contract, key=lambda name: (name != ATTENTION, name)) or [""]
    yield from headline(by_contract[first_contract], sampled)
    rows = [(code(name), *_counts(by_contract[name])) for name in others]
    yield table(("contract", "implementations", "passed/asked", "declined", "failures", "known failures"), rows)
    yield sample_note({name: of for name, of in sampled.items() if name.partition("/")[0] in others})


def _counts(outcomes: Sequence[Outcome]) -> tuple[object, ...]:
    asked = [members for members in by_implementation(outcomes).values() if count(members).asked]
    total = count(outcomes)
    return len(asked), f"{total.passed}/{total.asked}", total.declined, total.failures, total.known


def _benchmark(recorded: Recorded, charts: list[Chart]) -> Iterator[Block]:
    """The first contract at length, with its charts; which others were timed."""
    of, above = material(recorded), recorded.run
    first_contract = of.views[0].setting.contract if of.views else ""
    for view in of.views:
        if view.setting.contract == first_contract:
            yield from pivots.headline(view, of, above)
    yield from charts
    others = dict.fromkeys(view.setting.contract for view in of.views if view.setting.contract != first_contract)
    yield note("Timed as well: ", listed(list(others)), ".") if others else note()


def _findings(machines: Sequence[Recorded]) -> Table:
    """The findings that explain failures: their implementations, how many rows, and what the newest run knows of it."""
    who: dict[str, list[str]] = defaultdict(list)
    words: dict[str, str] = {}
    for recorded in sorted(machines, key=lambda of: (of.run.started, of.machine)):
        words |= facts.findings(recorded)
        rows: list[Outcome | Measurement] = [*recorded.outcomes, *recorded.measurements]
        for row in rows:
            if row.known:
                who[row.known].append(row.implementation)
    lines = [
        (code(name), said(listed(sorted(set(of)))), len(of), text(words.get(name, NOTHING), LONGEST_FINDING))
        for name, of in sorted(who.items())
    ]
    return table(("finding", "implementation", "rows", "what it is"), lines)
