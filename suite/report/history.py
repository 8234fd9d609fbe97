"""History → lines of a terminal, and JSON: steps of times and memory, and tests whose status changed."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from math import log
from pathlib import Path

from attnsuite.report.page import plain
from attnsuite.report.units import significant, size, speed, time_unit, times
from attnsuite.results.history import Change, History, PastRun, Series

BARS = "▁▂▃▄▅▆▇█"
"""The heights of a small chart, one per run."""
MAX_BARS = 40
"""Runs in a small chart, the newest ones."""
MAX_LINES = 20
"""Lines about one run in the overview."""


def text_lines(history: History, results: Path, every_series: bool = False) -> Iterator[str]:
    """The events of each run, by machine; `every_series` adds a line per series."""
    days = sorted(run.started[:10] for run in history.runs)
    machines = list(dict.fromkeys(run.machine for run in history.runs))
    runs = f"{_count(len(history.runs), 'run')} on {_count(len(machines), 'machine')}"
    yield f"{results}: {runs}, {days[0]} to {days[-1]}"
    for machine in machines:
        yield from ("", *map(plain_line, _of_machine(history, machine, every_series)))


def plain_line(line: str) -> str:
    """The line with its indentation, and without control characters."""
    words = line.lstrip(" ")
    return f"{' ' * (len(line) - len(words))}{plain(words, len(words))}"


def json_text(history: History) -> str:
    """The history as one JSON object."""
    return json.dumps(asdict(history), indent=1)


def _of_machine(history: History, machine: str, every_series: bool) -> Iterator[str]:
    runs = [run for run in history.runs if run.machine == machine]
    all_series = [series for series in history.series if series.machine == machine]
    yield f"{machine}: {_count(len(runs), 'run')}, {_counted(all_series, history.least)}"
    lines = _lines_by_run(history, runs, all_series)
    for run in runs:
        if run.marks or lines[run.id]:
            when = f"  {run.started[:16].replace('T', ' ')}"
            yield "  ".join(filter(None, (when, run.commit[:12], ", ".join(run.marks))))
            most = len(lines[run.id]) if every_series else MAX_LINES
            yield from (f"    {line}" for line in lines[run.id][:most])
            if (more := len(lines[run.id]) - most) > 0:
                yield f"    and {more} more, which `attnsuite history '*'` shows"
    if not any(lines.values()):
        yield "  no step, and no status that changed"
    if every_series:
        yield from (f"  {_line(series)}" for series in all_series)


def _counted(all_series: Sequence[Series], least: int) -> str:
    if not all_series:
        return "no times"
    stepped = sum(bool(series.changes) for series in all_series)
    short = sum(len(series.points) < least for series in all_series)
    too_short = f" ({short} have fewer than the {least} runs that a step needs)" if short else ""
    return f"{len(all_series)} series of times and memory, steps in {stepped} of them{too_short}"


def _lines_by_run(history: History, runs: Sequence[PastRun], all_series: Sequence[Series]) -> dict[str, list[str]]:
    """The events of each run of a machine, then its steps, the largest first."""
    lines: dict[str, list[str]] = {run.id: [] for run in runs}
    for event in history.events:
        if event.machine == runs[0].machine:
            lines.setdefault(event.run, []).append(f"{event.what}: {event.before} → {event.now}")
    marks = {run.id: run.marks for run in runs}
    steps = [(series, place, change) for series in all_series for place, change in enumerate(series.changes)]
    for series, place, change in sorted(steps, key=lambda step: -abs(log(step[2].ratio))):
        lines[change.run].append(_step(series, place, change, marks[change.run]))
    return lines


def _step(series: Series, place: int, change: Change, run_marks: Sequence[str]) -> str:
    """A step in words, with its marks other than those of the whole run."""
    before, after = (_format(series)(level) for level in series.levels[place : place + 2])
    marks = ", ".join(mark for mark in change.marks if mark not in run_marks)
    step = f"{_stepped(change)}, {_quantity(series)} {before} → {after}"
    return f"{series.implementation}, {series.table}: {step}{marks and f'; {marks}'}"


def _stepped(change: Change) -> str:
    """A step with its interval: "1.30× slower [1.28, 1.33]"."""
    middle, low, high = change.ratio, change.low, change.high
    if middle < 1:
        middle, low, high = 1 / middle, 1 / high, 1 / low
    return f"{times(middle)} {change.verdict} [{significant(low)}, {significant(high)}]"


def _line(series: Series) -> str:
    """A series in a line: a small chart of its runs, its newest value, and its steps."""
    steps = ", ".join(map(_stepped, series.changes)) or "no step"
    newest = f"{heights(series)} {_format(series)(series.points[-1].value)}, {_count(len(series.points), 'run')}"
    return f"{series.implementation}, {series.table}: {_quantity(series)} {newest}, {steps}"


def heights(series: Series) -> str:
    """The newest runs as bars between their least and their largest value."""
    values = [point.value for point in series.points[-MAX_BARS:]]
    low, span = min(values), max(values) - min(values)
    return "".join(BARS[round((value - low) / span * (len(BARS) - 1))] if span else BARS[0] for value in values)


def _quantity(series: Series) -> str:
    if series.quantity != "ratio":
        return series.quantity
    return f"compared with {series.baseline.partition('/')[2] or series.baseline}"


def _format(series: Series) -> Callable[[float], str]:
    """A function that writes a value of the series in words."""
    if series.quantity == "time":
        return time_unit(point.value for point in series.points).format
    return size if series.quantity == "memory" else lambda ratio: speed(1 / ratio)


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
