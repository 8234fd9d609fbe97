"""History → lines of a terminal, JSON and CSV: where a level changed, what changed beside it, what answers changed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from math import log
from pathlib import Path

from attnsuite.report.cells import plain
from attnsuite.report.csv_text import render as as_csv
from attnsuite.report.page import Column, table
from attnsuite.report.units import significant, size, speed, time_unit, times
from attnsuite.results.history import Change, History, PastRun, Series

BARS = "▁▂▃▄▅▆▇█"
"""The heights of a small line, one for each run."""
LONGEST_LINE = 40
"""Runs that a small line shows, the newest."""
MOST_LINES = 20
"""Lines about one run, unless all are asked for."""


def text_lines(of: History, results: Path, each: bool = False) -> Iterator[str]:
    """What happened in which run, by machine; then, if wanted, every series in a line."""
    days = sorted(run.started[:10] for run in of.runs)
    machines = list(dict.fromkeys(run.machine for run in of.runs))
    yield f"{results}: {_count(len(of.runs), 'run')} on {_count(len(machines), 'machine')}, {days[0]} to {days[-1]}"
    for machine in machines:
        yield from ("", *map(plain_line, _of_machine(of, machine, each)))


def plain_line(line: str) -> str:
    """The line with its indentation, and nothing in it that a terminal would obey."""
    words = line.lstrip(" ")
    return f"{' ' * (len(line) - len(words))}{plain(words, len(words))}"


def json_text(of: History) -> str:
    """All of it as one JSON object, as the records have it."""
    return json.dumps(asdict(of), indent=1)


def csv_text(of: History) -> str:
    """A row for each point of each series; where a level begins, the step that leads to it stands beside it."""
    runs = {(run.machine, run.id): run for run in of.runs}
    rows = (row for series in of.series for row in _rows(series, runs))
    return as_csv(table([Column(name, name) for name in COLUMNS], rows))


COLUMNS = (
    *("machine", "implementation", "contract", "table", "quantity", "baseline"),
    *("run", "started", "commit", "value", "low", "high"),
    *("step", "step_low", "step_high", "verdict", "marks"),
)  # fmt: skip
"""The columns of the CSV; those of a series are called like its fields."""


def _rows(of: Series, runs: dict[tuple[str, str], PastRun]) -> Iterator[tuple[object, ...]]:
    shared = tuple(getattr(of, name) for name in COLUMNS[:6])
    changes = {change.run: change for change in of.changes}
    for point in of.points:
        run, change = runs[of.machine, point.run], changes.get(point.run)
        step = (change.ratio, change.low, change.high, change.verdict) if change else (None, None, None, "")
        marks = "; ".join(change.marks if change else run.marks)
        yield (*shared, run.id, run.started, run.commit, point.value, point.low, point.high, *step, marks)


def _of_machine(of: History, machine: str, each: bool) -> Iterator[str]:
    runs = [run for run in of.runs if run.machine == machine]
    series = [one for one in of.series if one.machine == machine]
    yield f"{machine}: {_count(len(runs), 'run')}, {_counted(series, of.least)}"
    happened = _happened(of, machine)
    for run in runs:
        if run.marks or happened[run.id]:
            when = f"  {run.started[:16].replace('T', ' ')}"
            yield "  ".join(filter(None, (when, run.commit[:12], ", ".join(run.marks))))
            yield from (f"    {line}" for line in _first(happened[run.id], None if each else MOST_LINES))
    if not any(happened.values()):
        yield "  no step, and no status that changed"
    if each:
        yield from (f"  {_line(one)}" for one in series)


def _first(lines: Sequence[str], most: int | None) -> Iterator[str]:
    yield from lines[:most]
    if most is not None and len(lines) > most:
        yield f"and {len(lines) - most} more, which --all shows"


def _counted(series: Sequence[Series], least: int) -> str:
    if not series:
        return "no times"
    stepped = sum(bool(one.changes) for one in series)
    short = sum(len(one.points) < least for one in series)
    too_short = f" ({short} have fewer than the {least} runs that a step needs)" if short else ""
    return f"{len(series)} series of times and memory, steps in {stepped} of them{too_short}"


def _happened(of: History, machine: str) -> defaultdict[str, list[str]]:
    """The events of each run of a machine, then its steps, the largest first."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for event in (each for each in of.events if each.machine == machine):
        found[event.run].append(f"{event.what}: {event.before} → {event.now}")
    marks = {run.id: run.marks for run in of.runs if run.machine == machine}
    steps = [(one, place) for one in of.series if one.machine == machine for place in range(len(one.changes))]
    for one, place in sorted(steps, key=lambda step: -abs(log(step[0].changes[step[1]].ratio))):
        change = one.changes[place]
        found[change.run].append(_step(one, place, change, marks[change.run]))
    return found


def _step(of: Series, place: int, change: Change, said: Sequence[str]) -> str:
    """A step in words, with what changed in the same run, without what is said of the run itself."""
    before, after = (_worded(of)(level) for level in of.levels[place : place + 2])
    marks = [mark for mark in change.marks if mark not in said]
    beside = f"; {', '.join(marks)}" if marks else ""
    return f"{of.implementation}, {of.table}: {_stepped(change)}, {_quantity(of)} {before} → {after}{beside}"


def _stepped(change: Change) -> str:
    """How much slower, faster, more or less, with the interval: "1.30× slower [1.28, 1.33]"."""
    middle, low, high = (
        (change.ratio, change.low, change.high)
        if change.ratio >= 1
        else (1 / change.ratio, 1 / change.high, 1 / change.low)
    )
    return f"{times(middle)} {change.verdict} [{significant(low)}, {significant(high)}]"


def _line(of: Series) -> str:
    """A series in a line: its runs as heights, and its newest value."""
    steps = ", ".join(map(_stepped, of.changes)) or "no step"
    newest = f"{heights(of)} {_worded(of)(of.points[-1].value)}"
    return f"{of.implementation}, {of.table}: {_quantity(of)} {newest}, {_count(len(of.points), 'run')}, {steps}"


def heights(of: Series) -> str:
    """The newest runs as heights between the least and the largest of them."""
    values = [point.value for point in of.points[-LONGEST_LINE:]]
    low, span = min(values), max(values) - min(values)
    return "".join(BARS[round((value - low) / span * (len(BARS) - 1))] if span else BARS[0] for value in values)


def _quantity(of: Series) -> str:
    return f"compared with {of.baseline.partition('/')[2] or of.baseline}" if of.quantity == "ratio" else of.quantity


def _worded(of: Series) -> Callable[[float], str]:
    """How a value of the series is written."""
    if of.quantity == "time":
        return time_unit(point.value for point in of.points).format
    return size if of.quantity == "memory" else lambda ratio: speed(1 / ratio)


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
