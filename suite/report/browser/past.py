"""What history keeps of a folder of results, as the page's lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attnsuite.model import History, KeptRun, Series
from attnsuite.report.browser.history import Line, Moment
from attnsuite.report.units import size, speed, time_unit
from attnsuite.results.history import history_of

WORDS = {"ratio": "time compared with {}'s", "time": "time", "memory": "memory at the peak of a call"}
MOST_POINTS = 10_000
"""Points of all lines together: 40 bytes each. Of more, only lines with a step are shown."""


def past(results: Path) -> list[Line]:
    """A line for each series of two runs or more."""
    of = history_of(results)
    series = [each for each in of.series if len(each.points) > 1]
    if sum(len(each.points) for each in series) > MOST_POINTS:
        series = [each for each in series if each.changes]
    runs = {(run.machine, run.id): run for run in of.runs}
    return [_line(each, of, runs) for each in series]


def _line(of: Series, history: History, runs: Mapping[tuple[str, str], KeptRun]) -> Line:
    there = [(runs[of.machine, point.run], point) for point in of.points]
    moments = [
        Moment(run.started, run.commit, point.value, _worded(of.quantity, point.value), point.low, point.high)
        for run, point in there
    ]
    places = [point.run for point in of.points]
    releases = [(run.started[:10], mark) for run in history.runs if run.machine == of.machine for mark in run.marks]
    what = f"{of.table}, {WORDS[of.quantity].format(of.baseline.partition('/')[2] or of.baseline)}"
    return Line(of.machine, of.implementation, what, moments, [places.index(each.run) for each in of.changes], releases)


def _worded(quantity: str, value: float) -> str:
    """A value in words; of a ratio of times, the slow-down or the speed-up."""
    if quantity == "ratio":
        return speed(1 / value)
    return size(value) if quantity == "memory" else time_unit([value]).of(value)
