"""`attnsuite audit --between-runs`: the same code in one run after the other, and how far these lie apart."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from attnsuite import machine
from attnsuite.cli.checking import single_threaded
from attnsuite.model import UsageError
from attnsuite.model.statistics import LEVEL
from attnsuite.model.stopwatch import percent
from attnsuite.results.comparison.spread import FEWEST_RUNS, Spread, spreads, width
from attnsuite.results.store import Results, between_runs
from attnsuite.results.store.files import one_line

if TYPE_CHECKING:
    from attnsuite.benchmark.stopwatch.audit import Plan

MOST_RUNS = between_runs.MOST_RUNS
"""Runs that one command makes at most: as many as are kept."""


def audit_between_runs(results: Path, runs: int, pause: float = 0.0, plan: Plan | None = None) -> int:
    """Make so many runs, `pause` seconds apart, add each to what is stored of this machine, and print what they say.

    UsageError for a number of runs that is none, and where results cannot be written.
    """
    if not 1 <= runs <= MOST_RUNS:
        raise UsageError(f"--between-runs is the number of runs, 1 to {MOST_RUNS}, not {runs}")
    folder = results / Results(results).of(machine.here()).name
    between_runs.read(folder)  # refused before the minutes that a run takes
    with one_line(folder, "written"):
        folder.mkdir(parents=True, exist_ok=True)
    single_threaded()
    from attnsuite.benchmark.stopwatch.audit import Plan
    from attnsuite.benchmark.stopwatch.between_runs import one_run

    for number in range(runs):
        time.sleep(pause if number else 0.0)
        print(f"run {number + 1} of {runs}", file=sys.stderr, flush=True)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        path = between_runs.add(folder, one_run(started, plan or Plan(), _tell))
    rows = between_runs.read(folder)
    for line in (*spread_lines(spreads(rows), len({row.run for row in rows})), str(path)):
        print(line)
    return 0


def spread_lines(found: Sequence[Spread], runs: int) -> list[str]:
    """How far apart two runs of the same code may lie, for each workload; or how many runs are still due."""
    if not found:
        return [f"{runs} runs are stored; {FEWEST_RUNS} at least tell how far runs lie apart"]
    return [
        f"{of.workload}, threads {of.threads}: {of.runs} runs; two of the same code lie within "
        f"{_within(of.of_ratios, of)} beside the baseline and {_within(of.of_times, of)} alone ({percent(LEVEL)})"
        for of in found
    ]


def _within(deviation: float, of: Spread) -> str:
    return f"±{percent(width(2**0.5 * deviation, of.runs, 1 - LEVEL), 1)}"


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
