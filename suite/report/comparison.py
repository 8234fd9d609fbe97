"""The differences of two sides as a page: outcomes, times, memory; and the lines of a failed comparison."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from attnsuite.model import Measurement, Outcome
from attnsuite.model.comparison import FAIL_ON, INCONCLUSIVE, MEMORY, SLOWER, TIME, Change, Ratio, RunComparison
from attnsuite.report.page import Block, Cell, Column, Page, Section, Table, cell, note, plain, points, section, text
from attnsuite.report.units import Unit, significant, size, time_unit

MOST_LINES = 20
"""Changes or ratios below one heading; further ones are counted. `--json` has all."""
ORDER = {"slower": 0, "more": 0, "faster": 1, "less": 1, INCONCLUSIVE: 2, "same": 3}
"""Verdicts in the order of lines; `same` is counted and not listed."""


def comparison_page(comparisons: Sequence[RunComparison]) -> Page:
    """The differences, machine by machine."""
    return Page("Comparison", tuple(block for comparison in comparisons for block in _blocks(comparison)))


def failing_lines(comparisons: Sequence[RunComparison], on: Sequence[str], margin: float) -> list[str]:
    """A line per failure, a line about times without a verdict, and the number of failures."""
    failures = [(comparison, failure) for comparison in comparisons for failure in comparison.failures(on)]
    lines = [plain(f"fails: {_failure(failure)}", 1000) for _, failure in failures]
    inconclusive = sum(ratio.verdict == INCONCLUSIVE for comparison in comparisons for ratio in comparison.times)
    judged = sum(len(comparison.times) for comparison in comparisons)
    if {SLOWER, INCONCLUSIVE} & set(on) and not judged:
        lines.append("no time was compared, because no workload has times on both sides")
    elif SLOWER in on and inconclusive:
        lines.append(f"inconclusive: {inconclusive} of {judged} times are neither slower nor equal with certainty")
    what = " or ".join(name for name in FAIL_ON if name in on)
    beyond = f" beyond {significant(100 * margin, 2)} %" if {SLOWER, MEMORY} & set(on) else ""
    return [*lines, f"failed on {what}{beyond}: {len(failures)}"]


def _blocks(comparison: RunComparison) -> Iterator[Block]:
    yield note(f"old: {comparison.old}")
    yield note(f"new: {comparison.new}")
    yield from (note(f"note: {remark}") for remark in comparison.notes)
    yield _changed("outcomes", comparison.tests, comparison.outcomes)
    if comparison.measurements:
        yield _changed("measured", len(comparison.times), comparison.measurements)
    yield _ratios(TIME, comparison.times)
    yield _ratios(MEMORY, comparison.memories)


def _changed(what: str, both: int, changes: Sequence[Change]) -> Section:
    counts = Counter(_kind(change) for change in changes)
    worse = sum(change.worse for change in changes)
    parts = [f"{counts[kind]:,} {kind}" for kind in ("changed", "new", "gone") if counts[kind]]
    title = f"{what}: {both:,} on both sides; {', '.join(parts) or 'none changed, new or gone'}"
    listed = [change for change in changes if _is_listed(change)]
    lines = [_change(change) for change in listed[:MOST_LINES]]
    lines += [f"and {len(listed) - MOST_LINES:,} more"] * (len(listed) > MOST_LINES)
    lines += _summed([change for change in changes if not _is_listed(change)])
    return section(f"{title}; {worse:,} fail now" if worse else title, points(lines))


def _is_listed(change: Change) -> bool:
    """Whether a change has its own line; others are counted by implementation."""
    return _kind(change) == "changed" or change.worse


def _kind(change: Change) -> str:
    return "new" if change.old is None else "gone" if change.new is None else "changed"


def _summed(changes: Sequence[Change]) -> list[str]:
    """A line per implementation for its new rows, and for its missing rows."""
    counts = Counter((change.row.implementation, _kind(change)) for change in changes)
    lines = [f"{name}: {count:,} {kind}" for (name, kind), count in sorted(counts.items())]
    others = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], *([f"and {others:,} more"] if others > 0 else [])]


def _change(change: Change) -> str:
    fails = "fails now: " if change.worse else ""
    detail = f": {change.row.detail}" if change.row.detail and change.new else ""
    return plain(f"{fails}{change.row.implementation} {about(change.row)} {change.says}{detail}", 400)


def about(row: Outcome | Measurement) -> str:
    """The test or the table: "mask/float (float32, cpu)", "ladder/1k float32 cpu 1 thread forward hot"."""
    return row.group if isinstance(row, Measurement) else f"{row.case} ({row.dtype}, {row.device})"


def _ratios(what: str, ratios: Sequence[Ratio]) -> Section:
    """A heading that counts verdicts, and a line per ratio other than `same`."""
    counts = Counter(ratio.verdict for ratio in ratios)
    verdicts = ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in ORDER if counts[verdict])
    if not ratios:
        return section(f"{what}: nothing on both sides")
    listed = [ratio for ratio in ratios if ratio.verdict != "same"]
    listed.sort(key=lambda ratio: (ORDER[ratio.verdict], -abs(math.log(ratio.ratio))))
    rows = tuple(_row(ratio) for ratio in listed[:MOST_LINES])
    columns = tuple(Column("", right=right) for right in (False, True, True, False, False, False))
    more = [note(f"and {len(listed) - MOST_LINES:,} more")] * (len(listed) > MOST_LINES)
    reasons = Counter(ratio.why for ratio in ratios if ratio.why)
    whys = [note(f"{count:,} inconclusive: {why}") for why, count in reasons.items()]
    return section(f"{what}, new ÷ old: {verdicts}", Table(columns, rows), more, whys)


def _row(ratio: Ratio) -> tuple[Cell, ...]:
    names = text(ratio.row.implementation, 60), text(about(ratio.row))
    return *map(cell, (ratio.verdict, multiple(ratio.ratio), interval(ratio))), *names, text(_amounts(ratio))


def multiple(ratio: float) -> str:
    """A ratio to the digits that matter near 1: "1.052×"; three digits elsewhere."""
    return f"{significant(ratio, 4 if 1 <= ratio < 10 else 3)}×"


def interval(ratio: Ratio) -> str:
    """The interval of a ratio; empty where it is unknown."""
    if ratio.why:
        return ""
    return f"({significant(ratio.low)} to {significant(ratio.high)})"


def _amounts(ratio: Ratio) -> str:
    if ratio.what == MEMORY:
        return f"{size(ratio.old)} → {size(ratio.new)}"
    unit: Unit = time_unit([ratio.old, ratio.new])
    return f"{unit.format(ratio.old)} → {unit.format(ratio.new)}"


def _failure(failure: Change | Ratio) -> str:
    if isinstance(failure, Change):
        return f"{failure.row.implementation} {about(failure.row)} {failure.says}"
    what = f"{failure.verdict} memory" if failure.what == MEMORY else failure.verdict
    subject = (
        f"{failure.row.implementation} {about(failure.row)} {multiple(failure.ratio)} {interval(failure)}".rstrip()
    )
    return f"{what}: {subject}, {_amounts(failure)}"
