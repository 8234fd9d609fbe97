"""An audit of the stopwatch → stopwatch.md and stopwatch.csv: how often it cries wolf, and how often it misses one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, fields
from pathlib import Path
from statistics import median

from suite.records import Machine, Run
from suite.records.stopwatch import (
    DISAGREEMENT,
    FALSE_CLAIMS,
    FOUND,
    MUST_BE_FOUND,
    SLOWDOWNS,
    StopwatchAudit,
    Trial,
    percent,
)
from suite.report.benchmark import wording
from suite.report.benchmark.units import duration, significant, time_unit
from suite.report.conformance.page import provenance
from suite.report.text import code, escaped, section, table, write_csv
from suite.statistics import LEVEL, MARGIN, VERDICTS
from suite.store import replace_file
from suite.store.files import one_line


def write_stopwatch(folder: Path, audit: StopwatchAudit, run: Run) -> list[Path]:
    """Write both files into `folder`, atomically, and return their paths. UsageError where that cannot be done."""
    with one_line(folder, "written"):
        folder.mkdir(parents=True, exist_ok=True)
    page = [f"# The stopwatch against itself on {escaped(run.machine.name)}", "", *provenance(run)]
    page += [*(f"- {escaped(line, 1000)}" for line in stopwatch_lines(audit, run.machine)), ""]
    page += [*_identical(audit, run.machine), *_slowed(audit, run.machine), *_agreements(audit), *_how(audit)]
    replace_file(folder / "stopwatch.md", "\n".join(page).rstrip("\n") + "\n")
    rows = [[_six(value) for value in astuple(trial)] for trial in audit.trials]
    return [
        folder / "stopwatch.md",
        write_csv(folder / "stopwatch.csv", [field.name for field in fields(Trial)], rows),
    ]


def stopwatch_lines(audit: StopwatchAudit, machine: Machine) -> list[str]:
    """What was found, in plain lines: the claims, the slowdowns, the other stopwatches, then every complaint."""
    lines = []
    for threads in audit.threads:
        claims, tables, where = audit.claimed(0.0, threads), audit.tables(threads), wording.threads(threads, machine)
        said = f"false claims on {where}: {claims.count} of {claims.total} ({_share(audit, 0.0, threads)})"
        lines.append(f"{said}, in {tables.count} of {tables.total} tables")
        for injected in SLOWDOWNS:
            found = audit.claimed(injected, threads)
            if found.total:
                said = f"slowdowns of {percent(injected)} found on {where}: {found.count} of {found.total}"
                lines.append(f"{said} ({_share(audit, injected, threads)})")
    lines += [f"{tool}: {percent(audit.disagreement(tool), 1)} from our times in the median" for tool in audit.tools]
    lines += [f"absent: {tool}: {reason}" for tool, reason in audit.absent.items()]
    return [*lines, *(f"amiss: {complaint}" for complaint in audit.complaints)]


def _identical(audit: StopwatchAudit, machine: Machine) -> list[str]:
    rows = []
    for threads in audit.threads:
        for workload in [*audit.workloads, ""]:
            trials = audit.of(0.0, threads, workload)
            counts = [str(sum(trial.verdict == verdict for trial in trials)) for verdict in VERDICTS]
            where = wording.threads(threads, machine), code(workload) or "all"
            rows.append((*where, str(len(trials)), *counts, _share(audit, 0.0, threads, workload)))
    header = ("threads", "workload", "comparisons", *VERDICTS, "false claims")
    return section("Identical implementations", table(header, rows))


def _slowed(audit: StopwatchAudit, machine: Machine) -> list[str]:
    rows = []
    for threads in audit.threads:
        for injected in SLOWDOWNS:
            for workload in [*audit.workloads, ""]:
                trials = audit.of(injected, threads, workload)
                if trials:
                    where = wording.threads(threads, machine), percent(injected), code(workload) or "all"
                    found = audit.claimed(injected, threads, workload)
                    measured = percent(median(trial.slowdown for trial in trials), 1)
                    share = _share(audit, injected, threads, workload)
                    rows.append((*where, f"{found.count} of {found.total}", share, measured))
    header = ("threads", "injected", "workload", "found", "share", "measured, in the median")
    return section("Injected slowdowns", table(header, rows))


def _agreements(audit: StopwatchAudit) -> list[str]:
    rows = []
    for of in audit.agreements:
        what = escaped(of.tool), code(of.workload), code(of.implementation)
        time = time_unit([of.seconds]).of(of.seconds)
        rows.append((*what, escaped(of.device), time, str(of.pairs), significant(of.ratio, 4), percent(of.off, 1)))
    header = ("stopwatch", "workload", "implementation", "device", "our time", "pairs", "ours / theirs", "apart")
    return section("Other stopwatches", table(header, rows))


def _how(audit: StopwatchAudit) -> list[str]:
    return section("How it was measured", [*(f"- {escaped(each, 1000)}" for each in _method(audit)), ""])


def _method(audit: StopwatchAudit) -> Iterator[str]:
    tables = len({trial.table for trial in audit.trials})
    yield (
        f"{tables} tables were measured as benchmarks are, by the same code with its usual budget, each in processes "
        "of its own: where a process has its memory differs from one to the next, and so does its time."
    )
    yield (
        "Each table holds the baseline, identical implementations (the baseline again), and one for each slowdown: the "
        "baseline that then waits, busy, until so much more than its own time has passed."
    )
    yield (
        f"A claim is the verdict faster or slower: the {percent(LEVEL)} interval, corrected for all comparisons of the "
        f"table, excludes no difference and the median is beyond ±{percent(MARGIN)}. A slowdown is found where the "
        f"verdict is slower; of those of {percent(SLOWDOWNS[0])}, which lie on the margin, about half are."
    )
    yield (
        "Shares have exact 95 % intervals for independent comparisons. Those of a table share a baseline, so that "
        "claims come in groups: the number of tables with a claim is the more careful figure."
    )
    yield (
        "Other stopwatches took turns with ours in one process, in random order. The ratio is the median over pairs."
    )
    yield (
        f"Single-threaded, up to {percent(FALSE_CLAIMS)} false claims are allowed, and {percent(FOUND)} of slowdowns "
        f"of {percent(MUST_BE_FOUND)} must be found; other stopwatches may be {percent(DISAGREEMENT)} off in the "
        "median. On several threads all is as it was measured."
    )
    yield f"The audit took {duration(audit.seconds)}."


def _share(audit: StopwatchAudit, injected: float, threads: int, workload: str = "") -> str:
    """A share with its interval: "1.0 %, 95 % interval 0.3 to 2.4 %"."""
    of = audit.claimed(injected, threads, workload)
    low, high = of.interval
    return f"{percent(of.value, 1)}, 95 % interval {100 * low:.1f} to {percent(high, 1)}"


def _six(value: object) -> object:
    return float(f"{value:.6g}") if isinstance(value, float) else value
