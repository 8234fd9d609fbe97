"""results/README.md: one screen per machine, with links to the other pages."""

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path

from attnsuite.model import Outcome
from attnsuite.report import facts, markdown
from attnsuite.report.files import page_opening, refuse_foreign
from attnsuite.report.page import (
    NOTHING,
    Block,
    Note,
    Page,
    Section,
    Span,
    Table,
    blocks,
    code,
    joined,
    note,
    section,
    table,
)
from attnsuite.report.report_page import REPORT
from attnsuite.report.tally import breakdown, by_implementation, correctness, count
from attnsuite.report.timed import ATTENTION, BASELINE, TimedTable, verdict
from attnsuite.results import MachineRecord

INDEX = "README.md"
LINKED = (REPORT, "audit.md", "cheats.md", "history.csv")
"""Files in the index's folder that it links to."""
OF_MACHINE = ("cases.html", "conformance.csv", "benchmark.csv", "stopwatch.md", "time.svg", "memory.svg")
"""Files in a machine's folder that the index links to."""
MOST_SHAPES = 3
"""Shapes with times in the table of a machine: more would not fit on a screen of GitHub."""
MOST_CONTRACTS = 8
"""Contracts whose implementations all have a row, as a course's files; of more, those of one contract have, to fit."""


def refuse_foreign_index(folder: Path | str) -> None:
    """Raise UsageError for a README.md that attnsuite did not write, before a command takes minutes."""
    opening = page_opening(markdown.render(index({}, {}, Path(folder), ())))
    refuse_foreign(Path(folder) / INDEX, lambda text: page_opening(text) == opening)


def index(
    machines: Mapping[str, MachineRecord],
    tables: Mapping[str, Sequence[TimedTable]],
    folder: Path,
    written: Container[str],
) -> Page:
    """The page, the newest machine first. It links to files in `folder`, and to those `written` with it."""

    def is_there(name: str) -> bool:
        return name in written or name == REPORT or (folder / name).exists()

    ordered = sorted(
        (recorded for recorded in machines.values() if recorded.runs),
        key=lambda recorded: recorded.run.started,
        reverse=True,
    )
    links = joined([Span(name, link=name) for name in LINKED if is_there(name)])
    opening = note("Written by ", code("attnsuite report"), ", never by hand. ", *(links or ()))
    pages = (_machine(recorded, tables[recorded.machine], is_there) for recorded in ordered)
    return Page("Results", blocks(opening, pages))


def _machine(recorded: MachineRecord, tables: Sequence[TimedTable], is_there: Callable[[str], bool]) -> Section:
    run, name = recorded.run, recorded.machine
    machine = run.machine
    parts = [machine.processor, f"{machine.cores} cores", *machine.accelerators, facts.torch(run), run.commit]
    links = joined([Span(file, link=f"{name}/{file}") for file in OF_MACHINE if is_there(f"{name}/{file}")])
    return section(
        name,
        note(f"{', '.join(filter(None, parts))}, {facts.date(run)}. ", *(links or ())),
        _attention(recorded, tables),
        _others(recorded),
    )


def _attention(recorded: MachineRecord, tables: Sequence[TimedTable]) -> Table:
    """A row per implementation: tests, failures with the first mistake, and times of a few shapes."""
    contracts = _contracts(recorded)
    tested = {
        name: outcomes
        for (name, _), outcomes in by_implementation(recorded.outcomes).items()
        if outcomes[0].contract in contracts and count(outcomes).run
    }
    timed_tables = _shapes(tables)
    rows_by_table = [{row.measurement.implementation: row for row in table.measured} for table in timed_tables]
    names = sorted({*tested, *(name for rows in rows_by_table for name in rows)})
    sampled = facts.sampled(recorded)

    def cells(name: str) -> Iterator[object]:
        outcomes = correctness(tested.get(name, ()))
        counts = count(outcomes)
        yield code(name if len(contracts) > 1 else name.partition("/")[2])
        yield (f"{counts.passed:,}/{counts.run:,}" + " (a sample)" * (name in sampled)) if counts.run else NOTHING
        failures = breakdown(outcomes) or (f"{counts.known} known" if counts.known else NOTHING)
        yield ": ".join(filter(None, (failures, first_mistake(outcomes))))
        for timed_table, rows in zip(timed_tables, rows_by_table, strict=True):
            row = rows.get(name)
            compared = "" if row is None or row.verdict == BASELINE or not verdict(row) else f", {verdict(row)}"
            yield f"{timed_table.unit.format(row.time.median)}{compared}" if row and row.time else NOTHING

    shapes = (f"{timed_table.workload}, {timed_table.setting.dtype}" for timed_table in timed_tables)
    return table(("implementation", "passed/run", "failures", *shapes), map(cells, names))


def _contracts(recorded: MachineRecord) -> Sequence[str]:
    """The contracts of the table: all, or of many contracts attention, else the first."""
    contracts = [*dict.fromkeys(outcome.contract for outcome in recorded.outcomes)]
    first = [ATTENTION] if ATTENTION in contracts else contracts[:1]
    return contracts if len(contracts) <= MOST_CONTRACTS else first


def first_mistake(outcomes: Sequence[Outcome]) -> str:
    """The name of the mutant that the first diagnosed failure equals, or empty."""
    found = (re.search(r'equals "([^"]+)"', outcome.detail) for outcome in outcomes if outcome.fails)
    return next((match[1] for match in found if match), "")


def _shapes(tables: Sequence[TimedTable]) -> list[TimedTable]:
    """Forward tables on one thread: the longest sequence of each group of attention's workloads."""
    wanted = [
        table for table in tables
        if (table.setting.contract, table.setting.direction) == (ATTENTION, "forward")
        and table.setting.threads <= 1 and len(table.measured) > 1
    ]  # fmt: skip
    longest: dict[str, TimedTable] = {}
    for timed_table in wanted:
        group = timed_table.facts.group
        longest[group] = max(longest.get(group, timed_table), timed_table, key=lambda table: table.facts.length)
    return list(longest.values())[:MOST_SHAPES]


def _others(recorded: MachineRecord) -> Block:
    """The tests of the other contracts, in one line."""
    own = _contracts(recorded)
    others = [outcome for outcome in recorded.outcomes if outcome.contract not in own]
    counts = count(others)
    contracts = len({outcome.contract for outcome in others})
    if not counts.run:
        return Note(())
    words = f"{contracts} other contracts: {counts.passed:,} of {counts.run:,} tests passed"
    return note(f"{words}, {counts.failures:,} failed, {counts.known:,} failures of known bugs.")
