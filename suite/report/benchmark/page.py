"""Measurements → benchmark.md and its CSVs: first what a reader wants to know, then every number."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

from suite.records import EVERY_CASE, Machine, Measurement, Run, baseline
from suite.report.benchmark import pivots, wording
from suite.report.benchmark.absences import absence_lines, note_lines
from suite.report.benchmark.growth import CSV_HEADER, Growth, growth_lines, growth_rows, growths
from suite.report.benchmark.numbers import long_table, numbers
from suite.report.benchmark.speed import Setting, Table, tables
from suite.report.benchmark.units import duration, percent, rate_unit, significant, size
from suite.report.benchmark.views import Shapes, by_group, by_setting, shapes, views
from suite.report.charts.files import Charts, chart_lines
from suite.report.conformance.page import provenance
from suite.report.text import Row, code, escaped, plain, section, table, write_csv
from suite.statistics import LEVEL, MARGIN
from suite.store import Recorded, replace_file
from suite.store.files import one_line
from suite.store.recorded import ages

LONGEST_PAGE = 500_000
"""Bytes; GitHub shows a longer page as it is written."""
LEFT_OUT = "Long tables are left out below, for there are too many to show: benchmark.csv has every number."
PAGES = ("benchmark.md", "benchmark.csv", "benchmark_growth.csv", "benchmark_ceilings.csv")


def write_benchmark(folder: Path | str, recorded: Recorded, charts: Charts | None = None) -> list[Path]:
    """Write benchmark.md and its CSVs into `folder` and return their paths; remove them where nothing was measured.

    `charts` are those that lie in `folder` already. Raises UsageError when the folder cannot be written.
    """
    folder, run = Path(folder), recorded.measured_run
    if run is None:
        for name in PAGES:
            with one_line(folder / name, "removed"):
                (folder / name).unlink(missing_ok=True)
        return []
    found, named = tables(recorded.measured), shapes(recorded)
    of = _Material(recorded, run, found, named, charts or Charts(), growths(found, named))
    every = {table.setting for table in found}
    shown = {table.setting for view in views(found, named) for table in view.related}
    replace_file(folder / "benchmark.md", _first_that_fits(_page(of, folded) for folded in (every, shown, set())))
    return [
        folder / "benchmark.md",
        write_csv(folder / "benchmark.csv", *numbers(recorded, found, named)),
        write_csv(folder / "benchmark_growth.csv", CSV_HEADER, growth_rows(of.growths)),
        write_csv(folder / "benchmark_ceilings.csv", _CEILINGS, _ceiling_rows(found)),
    ]


@dataclass(frozen=True)
class _Material:
    """What a page is made of."""

    recorded: Recorded
    run: Run
    tables: Sequence[Table]
    named: Shapes
    charts: Charts
    growths: Sequence[Growth]


def _page(of: _Material, folded: Collection[Setting]) -> str:
    """The page. `folded` are the settings of which it has the long tables."""
    measurements, machine = of.recorded.measurements, of.run.machine
    page = [
        *(f"# Benchmark on {escaped(machine.name)}", ""),
        *provenance(of.run),
        *_in_short(of),
        *section("Charts", chart_lines(of.charts)),
        *_how(measurements),
        *_time_spent(of.recorded),
        *section("Not timed at all", absence_lines(each for each in measurements if each.workload == EVERY_CASE)),
        *_earlier(of.recorded),
        *([LEFT_OUT, ""] if any(table.setting not in folded for table in of.tables) else []),
        *_groups(of.tables, of.named, machine, folded),
        *growth_lines(of.growths, machine),
        *_ceilings(of.tables, machine),
    ]
    return "\n".join(page).rstrip("\n") + "\n"


def _first_that_fits(pages: Iterable[str]) -> str:
    page = ""
    for page in pages:
        if len(page.encode()) <= LONGEST_PAGE:
            break
    return page


def _in_short(of: _Material) -> list[str]:
    seen = views(of.tables, of.named)
    lines = [line for view in seen for line in pivots.headline(view, of.recorded, of.run)]
    return section("In short", lines or ["No implementation has a time yet.", ""])


def _how(measurements: Sequence[Measurement]) -> list[str]:
    """The method in plain words, and what the memory meter says of nothing."""
    constants = [c for of in measurements if (c := of.memory.get("constant")) is not None]
    meter = f" Of a call that allocates nothing the meter says up to {size(max(constants))}." if constants else ""
    level, margin = f"{100 * LEVEL:g} %", f"±{100 * MARGIN:g} %"
    contracts = dict.fromkeys(sorted(of.contract for of in measurements))
    against = " and ".join(dict.fromkeys(code(baseline(contract)) for contract in contracts))
    words = [
        "Every round times each implementation once, in an order drawn anew, so that what disturbs the machine "
        f"disturbs all of them. A time is the median over the rounds; its {level} interval is in the long tables, and "
        "all samples are in benchmark.jsonl.",
        f"A speed-up is the median ratio to {against} in the same round. *faster* and *slower*: the {level} "
        f"interval, corrected for all comparisons of a table, excludes no difference, and the median is beyond "
        f"{margin}. *same*: the interval lies within {margin}. *unclear*: neither. *another run*: not timed in the "
        "same rounds, so not compared. The lowest median is bold where all are of one run.",
        "Peak memory is that of one call without its inputs, its output included: by PyTorch's allocator on CUDA, else "
        f"by the resident size of the process, together with what it retained from the calls before.{meter} "
        "*none seen*: the meter says no more than that.",
        "FLOPs are those of the pairs attended, of whole models those of all matrix products. The roofline is what the "
        "machine reached in the same run, in a matrix product and in a copy; a share above 100 % is possible where "
        "numbers stay in a cache, which the copy leaves.",
        "Nothing is timed that fails its contract there: it is *refused*. The error is the largest of sampled rows of "
        "one timed round, held against the float64 oracle, in units of what conformance allows.",
    ]
    return section("How it was measured", [*(f"- {each}" for each in words), ""])


def _time_spent(recorded: Recorded) -> list[str]:
    """What the run took that measured most of each contract; of equals, the newest."""
    found: dict[str, list[str]] = defaultdict(list)
    age = ages(recorded.runs)
    for contract in sorted({of.contract for of in recorded.measurements}):
        rows = Counter(run for run, of in recorded.measured if of.contract == contract)
        found[max(rows, key=lambda run: (rows[run], age[run]))].append(contract)
    lines = []
    for run in recorded.runs_of(found):
        whose = " and ".join(map(code, found[run.id])) if len(found) > 1 else "this"
        lines += _spent_in(run, whose)
    return section("What it took", lines)


def _spent_in(run: Run, whose: str) -> list[str]:
    """What a run itself took, by activity: what was not in timed rounds is the harness's own."""
    noted = run.notes.get("seconds")
    spent = {
        str(name): float(seconds)
        for name, seconds in (noted.items() if isinstance(noted, Mapping) else ())
        if isinstance(seconds, int | float) and seconds > 0
    }
    parts = {name: seconds for name, seconds in spent.items() if name != "total"}
    total = max(spent.get("total", 0.0), sum(parts.values()))
    if not total:
        return []
    rows = [
        (escaped(name.replace("_", " ")), duration(seconds), percent(seconds / total))
        for name, seconds in sorted(parts.items(), key=lambda part: (-part[1], part[0]))
    ]
    profile = run.notes.get("profile")
    asked = f", of the profile {escaped(profile)}," if isinstance(profile, str) and profile else ""
    timed = f", {percent(parts['rounds'] / total)} of it in timed rounds" if "rounds" in parts else ""
    says = f"The run that measured most of {whose}{asked} took {duration(total)}{timed}."
    return [says, "", *table(("activity", "time", "share"), rows)]


def _earlier(recorded: Recorded) -> list[str]:
    """Rows that the newest run did not measure anew."""
    newest = recorded.measured_run
    rows = []
    for identity, run in recorded.runs.items():
        mine = [of for of_run, of in recorded.measured if of_run == identity and run != newest]
        if mine:
            who = ", ".join(code(name) for name in sorted({of.implementation for of in mine}))
            torch = escaped(run.versions.get("torch", "–"))
            rows.append((escaped(run.started), torch, escaped(run.commit or "–"), str(len(mine)), who))
    return section("Rows of an earlier run", table(("run started", "torch", "commit", "rows", "of"), rows))


def _groups(found: Sequence[Table], named: Shapes, machine: Machine, folded: Collection[Setting]) -> list[str]:
    groups = by_group(found, named)
    several = len({contract for contract, _ in groups}) > 1
    lines: list[str] = []
    for (contract, group), members in groups.items():
        body = _shape_lines(members, named)
        for setting, alike in by_setting(members, named).items():
            body += _setting_lines(setting, alike, named, machine, setting in folded)
        rows = [row.of for of in members for row in of.rows if row.of.workload != EVERY_CASE]
        body += [*section("Why there is no time", absence_lines(rows), "###"), *note_lines(rows)]
        lines += section(f"{contract}: {group}" if several else group, body)
    return lines


def _shape_lines(members: Iterable[Table], named: Shapes) -> list[str]:
    """What the workloads of a group are; a purpose that all share is said once."""
    subjects = sorted({of.subject for of in members}, key=named.place)
    known = {workload: of for contract, workload in subjects if (of := named[contract, workload]).words}
    purposes = {of.why for of in known.values()}
    shared = len(purposes) == 1
    rows = [
        (code(of.short or name), escaped(of.words), *([] if shared else [escaped(of.why)]))
        for name, of in known.items()
    ]
    why = purposes.pop() if shared else ""
    says = [f"{escaped(why[0].upper() + why[1:])}.", ""] if why else []
    return [*says, *table(("workload", "shape", *([] if shared else ["what it is"])), rows)]


def _setting_lines(
    setting: Setting, alike: Sequence[Table], named: Shapes, machine: Machine, folded: bool
) -> list[str]:
    lines: list[str] = []
    for page in pivots.pages(alike, named):
        heads = [escaped(named[of.subject].short or of.workload) for of in page]
        lines += [*pivots.times(page, heads), *pivots.memory(page, heads)]
    title = wording.setting(setting, machine)
    if folded:
        lines += _folded(f"Every number: {title}", alike)
    return section(title, lines, "###")


def _folded(title: str, alike: Iterable[Table]) -> list[str]:
    """The long tables, which a reader unfolds."""
    lines = [line for of in alike if of.measured for line in (f"**{code(of.workload)}**", "", *long_table(of))]
    summary = f"<details><summary>{escape(plain(title))}</summary>"
    return [summary, "", *lines, "</details>", ""] if lines else []


_CEILINGS = ("contract", "device", "dtype", "threads", "run", "flops_per_second", "bytes_per_second")


def _reached(found: Iterable[Table]) -> dict[tuple[Setting, str], Mapping[str, float]]:
    """What each run reached on each device in each dtype, on so many threads."""
    reached = {
        (replace(of.setting, direction="", cache=""), row.run): row.of.ceilings
        for of in found
        for row in of.measured
        if row.of.ceilings
    }
    return {key: reached[key] for key in sorted(reached, key=lambda key: (key[0].order, key[1]))}


def _ceiling_rows(found: Iterable[Table]) -> list[Row]:
    return [
        [of.contract, of.device, of.dtype, of.threads, run, ceilings.get("flops"), ceilings.get("bytes")]
        for (of, run), ceilings in _reached(found).items()
    ]


def _ceilings(found: Iterable[Table], machine: Machine) -> list[str]:
    rows = []
    for (of, run), ceilings in _reached(found).items():
        threads, copied = wording.threads(of.threads, machine) or "–", ceilings.get("bytes")
        said = f"{significant(copied / 1e9)} GB/s" if copied else "–"
        rows.append((*map(escaped, (of.device, of.dtype, threads, run)), _rate(ceilings.get("flops")), said))
    header = ("device", "dtype", "threads", "run", "matrix product", "copy")
    return section("What the machine reaches", table(header, list(dict.fromkeys(rows))))


def _rate(flops: float | None) -> str:
    return "–" if not flops else rate_unit([flops]).of(flops)
