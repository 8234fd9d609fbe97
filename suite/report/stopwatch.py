"""An audit of the timer → stopwatch.md: its rates of false claims and of missed slow-downs."""

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
from attnsuite.report.cells import Span, code
from attnsuite.report.files import texts, write
from attnsuite.report.page import Page, Table, blocks, data_table, points, section, table
from attnsuite.report.units import duration, significant, time_unit

STOPWATCH = "stopwatch"
"""The file name of the page and its table, without the ending."""


def write_stopwatch(folder: Path, audit: StopwatchAudit, run: Run) -> list[Path]:
    """Write stopwatch.md and its CSV into `folder`, atomically, and return their paths. UsageError if it cannot."""
    with file_errors(folder, "written"):
        folder.mkdir(parents=True, exist_ok=True)
    return write(folder, texts(STOPWATCH, stopwatch_page(audit, run)))


def stopwatch_page(audit: StopwatchAudit, run: Run) -> Page:
    """A summary, the comparisons by threads and workload, and the method."""
    machine = run.machine
    content = blocks(
        provenance.run_table(run),
        points(stopwatch_lines(audit, machine)),
        section("Identical implementations", _identical(audit, machine)),
        section("Injected slowdowns", _slowed(audit, machine)),
        section("Other timers", _agreements(audit)),
        section("How it was measured", points(_method(audit))),
    )
    names = [field.name for field in fields(Trial)]
    trials = data_table(names, map(attrgetter(*names), audit.trials))
    return Page(f"The stopwatch against itself on {machine.name}", content, {STOPWATCH: trials})


def stopwatch_lines(audit: StopwatchAudit, machine: Machine) -> list[str]:
    """The summary as plain lines: false claims, slow-downs, other timers, then every complaint."""
    lines = [*_shares(audit, machine)]
    lines += [_agreement(audit, tool) for tool in audit.tools]
    lines += [f"missing: {tool}: {reason}" for tool, reason in audit.absent.items()]
    return [*lines, *(f"complaint: {complaint}" for complaint in audit.complaints)]


def _agreement(audit: StopwatchAudit, tool: str) -> str:
    """The difference between another timer and ours: the median, and the largest."""
    worst = max((check for check in audit.agreements if check.tool == tool), key=lambda check: check.off)
    middle, most = percent(audit.disagreement(tool), 1), percent(worst.off, 1)
    where = f"{worst.implementation}, {worst.workload}"
    return f"{tool}: times differ by {middle} in the median and {most} at most ({where})"


def _shares(audit: StopwatchAudit, machine: Machine) -> Iterator[str]:
    for threads in audit.threads:
        claims, tables, where = audit.claimed(0.0, threads), audit.tables(threads), timed.threads(threads, machine)
        subject = f"false claims on {where}: {claims.count} of {claims.total} ({_share(audit, 0.0, threads)})"
        yield f"{subject}, in {tables.count} of {tables.total} tables"
        for injected in SLOWDOWNS:
            detected = audit.claimed(injected, threads)
            if detected.total:
                subject = f"slowdowns of {percent(injected)} found on {where}: {detected.count} of {detected.total}"
                yield f"{subject} ({_share(audit, injected, threads)})"


def _identical(audit: StopwatchAudit, machine: Machine) -> Table:
    rows: list[list[object]] = []
    for threads in audit.threads:
        for workload in [*audit.workloads, ""]:
            trials = audit.select(0.0, threads, workload)
            counts = [sum(trial.verdict == verdict for trial in trials) for verdict in VERDICTS]
            where = (timed.threads(threads, machine), _workload(workload))
            rows.append([*where, len(trials), *counts, _share(audit, 0.0, threads, workload)])
    return table(("threads", "workload", "comparisons", *VERDICTS, "false claims"), rows)


def _slowed(audit: StopwatchAudit, machine: Machine) -> Table:
    rows: list[list[object]] = []
    for threads, injected, workload in product(audit.threads, SLOWDOWNS, [*audit.workloads, ""]):
        if trials := audit.select(injected, threads, workload):
            detected = audit.claimed(injected, threads, workload)
            slower = median(trial.slowdown for trial in trials)
            where = (timed.threads(threads, machine), percent(injected), _workload(workload))
            share = _share(audit, injected, threads, workload)
            rows.append([*where, f"{detected.count} of {detected.total}", share, percent(slower, 1)])
    return table(("threads", "injected", "workload", "found", "share", "measured, in the median"), rows)


def _workload(name: str) -> Span | str:
    return code(name) if name else "all"


def _agreements(audit: StopwatchAudit) -> Table:
    heads = ("timer", "workload", "implementation", "device", "our time", "pairs", "ours / theirs", "difference")
    rows = [
        (check.tool, code(check.workload), code(check.implementation), check.device,
         time_unit([check.seconds]).format(check.seconds), check.pairs, significant(check.ratio, 4),
         percent(check.off, 1))
        for check in audit.agreements
    ]  # fmt: skip
    return table(heads, rows)


def _method(audit: StopwatchAudit) -> Iterator[str]:
    tables = len({trial.table for trial in audit.trials})
    yield (
        f"{tables} tables, each in its own processes. A table compares the baseline with itself and with slowed "
        "copies, which busy-wait for a share of their own time after each call."
    )
    yield (
        f"A claim is the verdict faster or slower: the {percent(LEVEL)} interval of the ratio, corrected for all "
        f"comparisons of the table, excludes 1, and the median differs by more than {percent(MARGIN)}."
    )
    yield (
        f"Limits on one thread: at most {percent(FALSE_CLAIMS)} false claims, at least {percent(MIN_FOUND_SHARE)} of "
        f"slowdowns of {percent(JUDGED_SLOWDOWN)} found, at most {percent(DISAGREEMENT)} of difference to other timers."
    )
    yield f"Shares have exact {percent(SHARE_LEVEL)} intervals. The audit took {duration(audit.seconds)}."


def _share(audit: StopwatchAudit, injected: float, threads: int, workload: str = "") -> str:
    """A share with its interval: "1.0 %, 95 % interval 0.3 to 2.4 %"."""
    share = audit.claimed(injected, threads, workload)
    low, high = share.interval
    return f"{percent(share.value, 1)}, {percent(SHARE_LEVEL)} interval {100 * low:.1f} to {percent(high, 1)}"
