"""Measurements → the page of a benchmark: first what a reader wants to know, then every number."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from attnsuite.model import EVERY_CASE, Machine, Run
from attnsuite.report import provenance
from attnsuite.report.benchmark import pivots, wording
from attnsuite.report.benchmark.absences import absence_table, note_table
from attnsuite.report.benchmark.columns import long_table, numbers
from attnsuite.report.benchmark.growth import growth_section, growth_table, growths
from attnsuite.report.benchmark.method import method
from attnsuite.report.benchmark.overall import overall, ranking
from attnsuite.report.benchmark.timed_tables import Setting, TimedTable
from attnsuite.report.benchmark.views import Material, by_group, by_setting, material
from attnsuite.report.cells import NOTHING, Span, code, joined, listed, number, said, strong
from attnsuite.report.charts.files import Charts
from attnsuite.report.files import LONGEST_PAGE
from attnsuite.report.page import Block, Column, Page, Section, Table, beside_page, blocks, first, note, section, table
from attnsuite.report.units import duration, percent, rate_unit, significant
from attnsuite.results.store import Recorded
from attnsuite.results.store.recorded import ages

LONGEST_NOTE = 600
"""Characters of the note that says which charts are missing: it has a command that must stay whole."""
MOST_RANKED = 60
"""The most lines of who is fastest where, and of who is how fast over all; report.html has the others."""
NUMBERS = "benchmark.csv"
"""The table of every number, beside the page."""

Details = Callable[[Material, Machine], Iterable[Block]]
"""What a page says of each workload."""


def benchmark(recorded: Recorded, run: Run, charts: Charts) -> Iterator[Page]:
    """The page in three lengths: with every number of each workload, with medians and memory alone, with neither.

    The shorter ones are for when nobody would read the longer. `run` is the newest that measured something here,
    `charts` are those that lie beside the page.
    """
    of = material(recorded)
    longer: list[Details] = [partial(_groups, long=True), partial(_groups, long=False)]
    readable = len(recorded.measured) <= LONGEST_PAGE  # each takes a line
    return (_page(of, run, charts, details) for details in (*(longer if readable else ()), _reasons))


def _page(of: Material, run: Run, charts: Charts, details: Details) -> Page:
    measurements, machine = of.recorded.measurements, run.machine
    data = {
        "benchmark": numbers(of),
        "benchmark_growth": growth_table(growths(of.tables)),
        "benchmark_ceilings": _ceilings(_reached(of.tables), machine),
    }
    shown = blocks(
        provenance.run_table(run),
        note("For programs and spreadsheets: ", joined([beside_page(f"{name}.csv") for name in data]), "."),
        section("In short", _in_short(of, run)),
        section("Over all", first(_overall(of), MOST_RANKED, NUMBERS)),
        section("Ranking", first(ranking(of.tables), MOST_RANKED, NUMBERS)),
        section("Charts", charts.charts, note(charts.note, longest=LONGEST_NOTE)),
        section("How it was measured", method(of), _time_spent(of.recorded)),
        section("Not timed at all", absence_table(each for each in measurements if each.workload == EVERY_CASE)),
        section("Rows of an earlier run", _earlier(of.recorded)),
        details(of, machine),
    )
    return Page(f"Benchmark on {machine.name}", shown, data)


def _reasons(of: Material, machine: Machine) -> Iterator[Block]:
    """Why workloads have no time, of all together, and where the rest stands."""
    rows = [each for each in of.recorded.measurements if each.workload != EVERY_CASE]
    yield section("Why there is no time", absence_table(rows), note_table(rows))
    where = (
        "The times of each workload, with intervals, memory and samples: report.html, beside the index of machines; "
    )
    yield note(where, "as numbers: ", beside_page(NUMBERS), ".")


def _in_short(of: Material, run: Run) -> list[Block]:
    first_contract = of.views[0].setting.contract if of.views else ""
    lines = [
        block
        for view in of.views
        for block in pivots.headline(view, of, run, short=view.setting.contract != first_contract)
    ]
    return lines or [note("No implementation has a time yet.")]


def _overall(of: Material) -> Table:
    """The geometric mean of the speed-ups of each implementation, where it was compared with the baseline."""
    rows = [
        (code(f"{each.contract}/{each.name}"), each.device, each.words, f"{each.compared} of {each.due}")
        for each in overall(of.tables)
        if each.speedup
    ]
    return table(("implementation", "device", "speed-up", "tables"), rows)


def _time_spent(recorded: Recorded) -> Iterator[Block]:
    """For each contract, how long the run took that measured most of its rows, or the newest of these."""
    found: dict[str, list[str]] = defaultdict(list)
    age = ages(recorded.runs)
    for contract in sorted({of.contract for of in recorded.measurements}):
        rows = Counter(run for run, of in recorded.measured if of.contract == contract)
        found[max(rows, key=lambda run: (rows[run], age[run]))].append(contract)
    for run in recorded.runs_of(found):
        contracts = joined(map(code, found[run.id]), " and ")
        yield from _spent_in(run, contracts if len(found) > 1 else (Span("this"),))


def _spent_in(run: Run, whose: Sequence[Span]) -> Iterator[Block]:
    """How long a run took, by activity. Every activity but the timed rounds is the suite's own work."""
    spent = {name: seconds for name, seconds in run.facts.seconds.items() if seconds > 0}
    parts = {name: seconds for name, seconds in spent.items() if name != "total"}
    total = max(spent.get("total", 0.0), sum(parts.values()))
    if not total:
        return
    profile = f", of the profile {run.facts.profile}," if run.facts.profile else ""
    shares = [
        f"{name.replace('_', ' ')} {percent(seconds / total)}"
        for name, seconds in sorted(parts.items(), key=lambda part: (-part[1], part[0]))
    ]
    told = f": {', '.join(shares)}" if shares else ""
    yield note(
        "The run that measured most of ", whose, f"{profile} took {duration(total)}{told}.", longest=LONGEST_NOTE
    )


def _earlier(recorded: Recorded) -> Table:
    """The rows that the newest run did not measure again, by the run that they are from."""
    newest = recorded.measured_run
    rows = []
    for identity, run in recorded.runs.items():
        mine = [of for of_run, of in recorded.measured if of_run == identity and run != newest]
        if mine:
            who = said(listed(sorted({of.implementation for of in mine})))
            rows.append((*provenance.of_run(run), len(mine), who))
    return table((*provenance.OF_RUN, "rows", "of"), rows)


def _groups(of: Material, machine: Machine, long: bool) -> Iterator[Section]:
    """A section for each group of workloads, then growth, and what the machine reaches; `long`: with every number."""
    groups = by_group(of.tables)
    several = len({contract for contract, _ in groups}) > 1
    for (contract, group), members in groups.items():
        rows = [row.of for table in members for row in table.rows if row.of.workload != EVERY_CASE]
        yield section(
            f"{contract}: {group}" if several else group,
            _shapes(members),
            [
                _of_setting(wording.setting(setting, machine), alike, long)
                for setting, alike in by_setting(members).items()
            ],
            section("Why there is no time", absence_table(rows), note_table(rows)),
        )
    yield growth_section(growths(of.tables), machine)
    yield section("What the machine reaches", _once(_ceilings(_reached(of.tables), machine)))


def _shapes(members: Iterable[TimedTable]) -> Iterator[Block]:
    """The workloads of a group: their sizes and purposes. A purpose that all of them share is said once."""
    known = {of.workload: of for of in sorted(members, key=lambda of: of.order) if of.facts.shape}
    purposes = {of.facts.why for of in known.values()}
    shared = len(purposes) == 1
    if shared and (why := purposes.pop()):
        yield note(f"{why[0].upper()}{why[1:]}.")
    columns = ("workload", "shape", *([] if shared else ["what it is"]))
    yield table(columns, ((code(of.short), of.facts.shape, of.facts.why)[: len(columns)] for of in known.values()))


def _of_setting(title: str, alike: Sequence[TimedTable], long: bool) -> Section:
    """The medians and peaks of the tables of one setting; if `long`, every number of them as well, folded."""
    pages = [(page, [of.short or of.workload for of in page]) for page in pivots.pages(alike)]
    pivoted = [pivot(page, heads) for page, heads in pages for pivot in (pivots.times, pivots.memory)]
    every = blocks(*(block for of in alike if of.measured for block in (note(strong(of.workload)), long_table(of))))
    silent = pivots.not_asked(alike)
    return section(title, pivoted, silent, Section(f"Every number: {title}", every, folded=True) if long else ())


Reached = Mapping[tuple[Setting, str], Mapping[str, float]]
"""By setting and run, the FLOPs per second of a matrix product and the bytes per second of a copy."""


def _reached(found: Iterable[TimedTable]) -> Reached:
    """What each run reached, by device, dtype and number of threads."""
    reached = {
        (replace(of.setting, direction="", cache=""), row.run): row.of.ceilings
        for of in found
        for row in of.measured
        if row.of.ceilings
    }
    return {key: reached[key] for key in sorted(reached, key=lambda key: (key[0].order, key[1]))}


def _ceilings(reached: Reached, machine: Machine) -> Table:
    aged = any("age" in ceilings for ceilings in reached.values())
    columns = (
        Column(key="contract"), Column("device", "device"), Column("dtype", "dtype"), Column("threads", "threads"),
        Column("run", "run"), Column("matrix product", "flops_per_second"), Column("copy", "bytes_per_second"),
        *([Column("measured", "age_in_seconds")] if aged else []),
    )  # fmt: skip
    rows: list[Sequence[object]] = []
    for (of, run), ceilings in reached.items():
        flops, copied = ceilings.get("flops"), ceilings.get("bytes")
        product = number(flops, rate_unit([flops]).of(flops) if flops else NOTHING, "FLOP/s")
        copy = number(copied, f"{significant(copied / 1e9)} GB/s" if copied else NOTHING, "B/s")
        threads = number(of.threads, wording.threads(of.threads, machine) or NOTHING)
        since = [_since(ceilings)] if aged else []
        rows.append((of.contract, of.device, of.dtype, threads, run, product, copy, *since))
    return table(columns, rows)


def _since(ceilings: Mapping[str, float]) -> object:
    """When ceilings were measured: in their own run, or so long before."""
    age = ceilings.get("age")
    return number(age, "in this run" if age is None else f"{significant(age / 3600)} h before")


def _once(of: Table) -> Table:
    """Each row once: contracts of one run have the same ceilings, and readers do not see the contract."""
    unlike = {tuple(cell.words for cell in row): row for row in of.shown.rows}
    return Table(of.shown.columns, tuple(unlike.values()))
