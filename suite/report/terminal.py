"""Outcomes → the lines that a check ends with; measurements → those that a benchmark prints after each table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from suite.records import EVERY_CASE, FAILURES, Measurement, Outcome
from suite.report.benchmark import wording
from suite.report.benchmark.speed import Row, tables
from suite.report.benchmark.units import percent, time_unit
from suite.report.conformance.tally import breakdown, by_implementation, count, devices, groups
from suite.report.text import plain
from suite.statistics import Interval

MOST_REASONS = 8
"""So many reasons for declining are named."""


def summary_lines(
    outcomes: Sequence[Outcome], again: Mapping[str, Sequence[str]] = MappingProxyType({}), reasons: bool = False
) -> list[str]:
    """A line per implementation, its failures below it in groups, and the total: no markup, no control codes.

    `again` maps implementations to the words by which they are asked again, where that is not their registered name.
    With `reasons` it is also said why something was declined.
    """
    found = by_implementation(outcomes)
    several = len(devices(outcomes)) > 1
    names = [plain(f"{name} on {device}" if several else name, 60) for name, device in found]
    width = max(map(len, names), default=0)
    lines = []
    for name, members in zip(names, found.values(), strict=True):
        lines.append(f"{name:{width}}  {_said(members)}")
        lines += _declined(members) if reasons else []
        for group in groups((outcome for outcome in members if outcome.status in FAILURES), again):
            known = f"known as {group.example.known}, " if group.example.known else ""
            lines.append(f"  {group.count} × {plain(known + group.says, 400)}")
            lines.append(f"      {plain(group.rerun, 1000)}")
    if len(found) > 1:
        lines.append(f"{f'{len(found)} in all':{width}}  {_said(outcomes)}")
    return lines


def _declined(outcomes: Sequence[Outcome]) -> list[str]:
    """A line for each reason why something was not asked."""
    reasons = Counter(outcome.detail for outcome in outcomes if outcome.status == "declined")
    lines = [f"  {number} × declined: {plain(reason, 400)}" for reason, number in reasons.most_common(MOST_REASONS)]
    others = [number for _, number in reasons.most_common()[MOST_REASONS:]]
    return [*lines, *([f"  {sum(others)} × declined for {len(others)} other reasons"] if others else [])]


def _said(outcomes: Sequence[Outcome]) -> str:
    counts = count(outcomes)
    if not counts.asked and not counts.declined:
        reasons = sorted({plain(outcome.detail) for outcome in outcomes if outcome.detail})
        return f"missing: {'; '.join(reasons)}" if reasons else "missing"
    parts = [f"{counts.passed}/{counts.asked} passed"]
    parts += [f"declined {counts.declined}"] if counts.declined else []
    parts += [breakdown(outcomes)] if counts.failures else []
    parts += [f"{counts.known} known to fail"] if counts.known else []
    return ", ".join([*parts, *([f"{counts.missing} missing"] if counts.missing else [])])


def benchmark_lines(measurements: Sequence[Measurement], shape: str = "") -> list[str]:
    """A heading for each table and a line per implementation: its median, who is faster, its peak of memory; or why it
    has none. What speaks of all workloads comes first. No markup, no control codes.

    `measurements` are of one run; `shape` is the workload's in words.
    """
    about_all = [of for of in measurements if of.workload == EVERY_CASE]
    lines = [f"{plain(of.implementation, 60)}  {_without_time(of)}" for of in about_all]
    for table in tables(("", of) for of in measurements if of.workload != EVERY_CASE):
        heading = ", ".join(filter(None, (table.workload, shape, wording.setting(table.setting))))
        unit = time_unit(row.time.median for row in table.measured if row.time)
        cells = [
            (row.of.implementation, unit.of(row.time.median), _spread(row.time), _compared(row), wording.peak(row))
            for row in table.measured
            if row.time
        ]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        said = {name: _aligned((plain(name, 60), *rest), widths) for name, *rest in cells}
        lines.append(plain(heading, 400))
        for row in table.rows:
            name = row.of.implementation
            lines.append(
                "  " + said.get(name, f"{plain(name, 60):{widths[0] if widths else 0}}  {_without_time(row.of)}")
            )
    return lines


def _without_time(of: Measurement) -> str:
    status = wording.status(of)
    if of.detail.startswith(status):
        return plain(of.detail, 400)
    return plain(f"{status}: {of.detail}" if of.detail else status, 400)


def _spread(of: Interval) -> str:
    """How far its ends lie from the median."""
    if of.low <= 0:
        return "too few rounds"
    below, above = (percent(abs(end - of.median) / of.median) for end in (of.low, of.high))
    return f"±{below}" if below == above else f"−{below} +{above}"


def _compared(row: Row) -> str:
    return row.verdict if row.verdict == "baseline" else wording.verdict(row)


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    """The name to the left, the numbers to the right."""
    name, time, spread, compared, memory = cells
    numbers = f"{time:>{widths[1]}}  {spread:>{widths[2]}}  {compared:>{widths[3]}}  {memory:>{widths[4]}}"
    return f"{name:{widths[0]}}  {numbers}"
