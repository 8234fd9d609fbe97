"""What two sides differ in → a page: outcomes first, then times, then memory, then what fails."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from attnsuite.model import Measurement, Outcome
from attnsuite.model.comparison import FAIL_ON, MEMORY, SLOWER, TIME, UNCLEAR, Change, Ratio, RunComparison
from attnsuite.report.cells import Cell, cell, plain, text
from attnsuite.report.page import Block, Column, Page, Section, Table, note, points, section
from attnsuite.report.units import Unit, significant, size, time_unit

MOST_LINES = 20
"""Changes, or ratios, that are listed under one heading; of more, the others are counted. `--json` has all."""
ORDER = {"slower": 0, "more": 0, "faster": 1, "less": 1, "unclear": 2, "same": 3}
"""Verdicts in the order of lines. Those that are the same are counted, and not listed."""


def comparison_page(found: Sequence[RunComparison]) -> Page:
    """What differs, machine by machine."""
    return Page("Comparison", tuple(block for each in found for block in _blocks(each)))


def failing_lines(found: Sequence[RunComparison], on: Sequence[str], margin: float) -> list[str]:
    """A line for each thing that fails, and one that counts; also how many times could not be judged."""
    failures = [(each, failure) for each in found for failure in each.failures(on)]
    lines = [plain(f"fails: {_failure(failure)}", 1000) for _, failure in failures]
    unclear = sum(ratio.verdict == UNCLEAR for each in found for ratio in each.times)
    judged = sum(len(each.times) for each in found)
    if {SLOWER, UNCLEAR} & set(on) and not judged:
        lines.append("no time was compared, so none can be said to be slower")
    elif SLOWER in on and unclear:
        lines.append(f"unclear: of {unclear} of {judged} times it cannot be said whether they are slower")
    what = " or ".join(name for name in FAIL_ON if name in on)
    beyond = f" beyond {significant(100 * margin, 2)} %" if {SLOWER, MEMORY} & set(on) else ""
    return [*lines, f"failed on {what}{beyond}: {len(failures)}"]


def _blocks(of: RunComparison) -> Iterator[Block]:
    yield note(f"old: {of.old}")
    yield note(f"new: {of.new}")
    yield from (note(f"note: {each}") for each in of.notes)
    yield _changed("outcomes", of.asked, of.outcomes)
    if of.measurements:
        yield _changed("measured", len(of.times), of.measurements)
    yield _ratios(TIME, of.times)
    yield _ratios(MEMORY, of.memories)


def _changed(what: str, both: int, changes: Sequence[Change]) -> Section:
    counts = Counter(_kind(change) for change in changes)
    worse = sum(change.worse for change in changes)
    said = [f"{counts[kind]:,} {kind}" for kind in ("changed", "new", "gone") if counts[kind]]
    title = f"{what}: {both:,} on both sides; {', '.join(said) or 'none changed, new or gone'}"
    listed = [change for change in changes if _is_listed(change)]
    lines = [_change(change) for change in listed[:MOST_LINES]]
    lines += [f"and {len(listed) - MOST_LINES:,} more"] * (len(listed) > MOST_LINES)
    lines += _summed([change for change in changes if not _is_listed(change)])
    return section(f"{title}; {worse:,} fail now" if worse else title, points(lines))


def _is_listed(change: Change) -> bool:
    """Whether it has a line of its own; others are counted by implementation."""
    return _kind(change) == "changed" or change.worse


def _kind(change: Change) -> str:
    return "new" if change.old is None else "gone" if change.new is None else "changed"


def _summed(changes: Sequence[Change]) -> list[str]:
    """A line for each implementation's new rows, and for those that are gone."""
    counts = Counter((change.row.implementation, _kind(change)) for change in changes)
    lines = [f"{name}: {count:,} {kind}" for (name, kind), count in sorted(counts.items())]
    others = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], *([f"and {others:,} more"] if others > 0 else [])]


def _change(change: Change) -> str:
    fails = "fails now: " if change.worse else ""
    detail = f": {change.row.detail}" if change.row.detail and change.new else ""
    return plain(f"{fails}{change.row.implementation} {about(change.row)} {change.says}{detail}", 400)


def about(row: Outcome | Measurement) -> str:
    """What was asked: "mask/float (float32, cpu)", "ladder/1k float32 cpu 1 thread forward hot"."""
    return row.group if isinstance(row, Measurement) else f"{row.case} ({row.dtype}, {row.device})"


def _ratios(what: str, ratios: Sequence[Ratio]) -> Section:
    """A heading that counts verdicts, and a line for each ratio that is not the same."""
    counts = Counter(ratio.verdict for ratio in ratios)
    said = ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in ORDER if counts[verdict])
    if not ratios:
        return section(f"{what}: nothing on both sides")
    listed = [ratio for ratio in _ordered(ratios) if ratio.verdict != "same"]
    rows = tuple(_row(ratio) for ratio in listed[:MOST_LINES])
    columns = (Column(), Column(right=True), Column(right=True), Column(), Column(), Column())
    titled = tuple(Column("", right=column.right) for column in columns)
    more = [note(f"and {len(listed) - MOST_LINES:,} more")] * (len(listed) > MOST_LINES)
    reasons = Counter(ratio.why for ratio in ratios if ratio.why)
    whys = [note(f"{count:,} unclear: {why}") for why, count in reasons.items()]
    return section(f"{what}, new ÷ old: {said}", Table(titled, rows), more, whys)


def _ordered(ratios: Sequence[Ratio]) -> list[Ratio]:
    """The worst first, then what is better, then what is unclear, each by how far the ratio is from 1."""
    return sorted(ratios, key=lambda ratio: (ORDER[ratio.verdict], -abs(math.log(ratio.ratio))))


def _row(ratio: Ratio) -> tuple[Cell, ...]:
    named = text(ratio.row.implementation, 60), text(about(ratio.row))
    return *map(cell, (ratio.verdict, multiple(ratio.ratio), interval(ratio))), *named, text(_amounts(ratio))


def multiple(ratio: float) -> str:
    """A ratio to the digits that matter near 1: "1.052×"; three digits elsewhere."""
    return f"{significant(ratio, 4 if 1 <= ratio < 10 else 3)}×"


def interval(ratio: Ratio) -> str:
    """The interval of a ratio; nothing where nothing is known of it."""
    if ratio.why:
        return ""
    return f"({significant(ratio.low)} to {significant(ratio.high)})"


def _amounts(ratio: Ratio) -> str:
    if ratio.what == MEMORY:
        return f"{size(ratio.old)} → {size(ratio.new)}"
    unit: Unit = time_unit([ratio.old, ratio.new])
    return f"{unit.format(ratio.old)} → {unit.format(ratio.new)}"


def _failure(of: Change | Ratio) -> str:
    if isinstance(of, Change):
        return f"{of.row.implementation} {about(of.row)} {of.says}"
    what = f"{of.verdict} memory" if of.what == MEMORY else of.verdict
    said = f"{of.row.implementation} {about(of.row)} {multiple(of.ratio)} {interval(of)}".rstrip()
    return f"{what}: {said}, {_amounts(of)}"
