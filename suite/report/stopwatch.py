"""An audit of the stopwatch → stopwatch.md: how often it claims false differences and misses true ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from itertools import product
from operator import attrgetter
from pathlib import Path
from statistics import median

from attnsuite.model import Machine, Run
from attnsuite.model.faster import MARGIN, VERDICTS
from attnsuite.model.files import file_errors
from attnsuite.model.statistics import LEVEL
from attnsuite.model.stopwatch import (
    DISAGREEMENT,
    FALSE_CLAIMS,
    JUDGED_SLOWDOWN,
    MIN_FOUND_SHARE,
    SHARE_LEVEL,
    SLOWDOWNS,
    StopwatchAudit,
    Trial,
    percent,
)  # fmt: skip
from attnsuite.report import provenance, timed
from attnsuite.report.cells import Cell, code, number, text
from attnsuite.report.files import texts, write
from attnsuite.report.page import Column, Page, Table, blocks, points, section, table
from attnsuite.report.units import duration, significant, time_unit

STOPWATCH = "stopwatch"
"""The name of the page and of its table, without their endings."""


def write_stopwatch(folder: Path, audit: StopwatchAudit, run: Run) -> list[Path]:
    """Write stopwatch.md and its CSV into `folder`, atomically, and return their paths. UsageError if it cannot."""
    with file_errors(folder, "written"):
        folder.mkdir(parents=True, exist_ok=True)
    return write(folder, texts(STOPWATCH, stopwatch_page(audit, run)))


def stopwatch_page(audit: StopwatchAudit, run: Run) -> Page:
    """The findings in short, then every comparison by threads and workload, and how it was measured."""
    machine = run.machine
    shown = blocks(
        provenance.run_table(run),
        points(stopwatch_lines(audit, machine)),
        section("Identical implementations", _identical(audit, machine)),
        section("Injected slowdowns", _slowed(audit, machine)),
        section("Other stopwatches", _agreements(audit)),
        section("How it was measured", points(_method(audit))),
    )
    names = [field.name for field in fields(Trial)]
    trials = table([Column(key=name) for name in names], map(attrgetter(*names), audit.trials))
    return Page(f"The stopwatch against itself on {machine.name}", shown, {STOPWATCH: trials})


def stopwatch_lines(audit: StopwatchAudit, machine: Machine) -> list[str]:
    """The findings as plain lines: false claims, slowdowns, other stopwatches, then every complaint."""
    lines = [*_shares(audit, machine)]
    lines += [_agreement(audit, tool) for tool in audit.tools]
    lines += [f"absent: {tool}: {reason}" for tool, reason in audit.absent.items()]
    return [*lines, *(f"amiss: {complaint}" for complaint in audit.complaints)]


def _agreement(audit: StopwatchAudit, tool: str) -> str:
    """How far another stopwatch is from ours: in the median, and where it is farthest."""
    worst = max((of for of in audit.agreements if of.tool == tool), key=lambda of: of.off)
    middle, most = percent(audit.disagreement(tool), 1), percent(worst.off, 1)
    return f"{tool}: {middle} from our times in the median, {most} at most ({worst.implementation}, {worst.workload})"


def _shares(audit: StopwatchAudit, machine: Machine) -> Iterator[str]:
    for threads in audit.threads:
        claims, tables, where = audit.claimed(0.0, threads), audit.tables(threads), timed.threads(threads, machine)
        said = f"false claims on {where}: {claims.count} of {claims.total} ({_share(audit, 0.0, threads)})"
        yield f"{said}, in {tables.count} of {tables.total} tables"
        for injected in SLOWDOWNS:
            found = audit.claimed(injected, threads)
            if found.total:
                said = f"slowdowns of {percent(injected)} found on {where}: {found.count} of {found.total}"
                yield f"{said} ({_share(audit, injected, threads)})"


def _identical(audit: StopwatchAudit, machine: Machine) -> Table:
    rows: list[list[object]] = []
    for threads in audit.threads:
        for workload in [*audit.workloads, ""]:
            trials = audit.of(0.0, threads, workload)
            counts = [sum(trial.verdict == verdict for trial in trials) for verdict in VERDICTS]
            where = (timed.threads(threads, machine), _workload(workload))
            rows.append([*where, len(trials), *counts, _share(audit, 0.0, threads, workload)])
    return table(("threads", "workload", "comparisons", *VERDICTS, "false claims"), rows)


def _slowed(audit: StopwatchAudit, machine: Machine) -> Table:
    rows: list[list[object]] = []
    for threads, injected, workload in product(audit.threads, SLOWDOWNS, [*audit.workloads, ""]):
        if trials := audit.of(injected, threads, workload):
            found = audit.claimed(injected, threads, workload)
            slower = median(trial.slowdown for trial in trials)
            where = (timed.threads(threads, machine), number(injected, percent(injected)), _workload(workload))
            share = _share(audit, injected, threads, workload)
            rows.append([*where, f"{found.count} of {found.total}", share, number(slower, percent(slower, 1))])
    return table(("threads", "injected", "workload", "found", "share", "measured, in the median"), rows)


def _workload(name: str) -> Cell:
    return Cell((code(name),), name) if name else text("all")


def _agreements(audit: StopwatchAudit) -> Table:
    rows: list[list[object]] = []
    for of in audit.agreements:
        time = number(of.seconds, time_unit([of.seconds]).format(of.seconds), "s")
        ratio, apart = number(of.ratio, significant(of.ratio, 4)), number(of.off, percent(of.off, 1))
        rows.append([of.tool, code(of.workload), code(of.implementation), of.device, time, of.pairs, ratio, apart])
    heads = ("stopwatch", "workload", "implementation", "device", "our time", "pairs", "ours / theirs", "apart")
    return table(heads, rows)


def _method(audit: StopwatchAudit) -> Iterator[str]:
    tables = len({trial.table for trial in audit.trials})
    yield (
        f"{tables} tables, each in processes of its own: the baseline, the baseline again, and for each slowdown the "
        "baseline that then waits, busy, until that share of its own time has passed."
    )
    yield (
        f"A claim is the verdict faster or slower: the {percent(LEVEL)} interval, corrected for all comparisons of the "
        f"table, excludes no difference and the median is beyond ±{percent(MARGIN)}."
    )
    yield (
        f"Single-threaded, up to {percent(FALSE_CLAIMS)} false claims are allowed, {percent(MIN_FOUND_SHARE)} of "
        f"slowdowns of {percent(JUDGED_SLOWDOWN)} must be found, and other stopwatches "
        f"may be {percent(DISAGREEMENT)} off."
    )
    yield f"Shares have exact {percent(SHARE_LEVEL)} intervals. The audit took {duration(audit.seconds)}."


def _share(audit: StopwatchAudit, injected: float, threads: int, workload: str = "") -> str:
    """A share with its interval: "1.0 %, 95 % interval 0.3 to 2.4 %"."""
    of = audit.claimed(injected, threads, workload)
    low, high = of.interval
    return f"{percent(of.value, 1)}, {percent(SHARE_LEVEL)} interval {100 * low:.1f} to {percent(high, 1)}"
