"""Outcomes → the lines that a check ends with; measurements → the lines that a benchmark prints for each table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from attnsuite.model import (
    EVERY_CASE,
    FAILURES,
    INPUT_VALIDATION,
    ContractFacts,
    Measurement,
    Outcome,
    Reason,
    Status,
)
from attnsuite.model.comparison import RunComparison
from attnsuite.model.limits import NOT_BOUNDED
from attnsuite.model.statistics import Interval
from attnsuite.report import terminal, timed
from attnsuite.report.cells import LONGEST_CODE, Cell, cell, code, plain, text
from attnsuite.report.comparison import comparison_page
from attnsuite.report.page import Block, Column, Note, Page, Points, Section, Table, note, points, section
from attnsuite.report.tally import (
    breakdown,
    by_implementation,
    correctness,
    count,
    devices,
    groups,
    validation,
)
from attnsuite.report.timed import BASELINE, Row, tables
from attnsuite.report.units import Unit, percent, time_unit

MOST_REASONS = 8
"""The most reasons for declining that are listed; of more, the others are counted."""
LONGEST_NAME = 60
"""Characters of an implementation's name in a line of a terminal: longer ones would push the numbers off the screen."""
LONGEST_SAID = 400
"""Characters of a message in a terminal: five lines."""
LONGEST_WORD = 120
"""Characters of a word in a message: paths and operators are shorter, and what comes after it is to be seen."""


def summary_lines(
    outcomes: Sequence[Outcome],
    again: Mapping[str, Sequence[str]] = MappingProxyType({}),
    reasons: bool = False,
    verbose: bool = False,
    sampled: Mapping[str, int] = MappingProxyType({}),
) -> list[str]:
    """A line per implementation, its failures below it in groups, and the total: no markup, no control codes.

    `again` has the words of a command line that name an implementation whose registered name does not. `reasons` adds
    lines that say why cases were unsupported, and how many bad inputs were refused, `verbose` those that were not.
    `sampled` has the implementations that were tested on a sample, with the number of their tests in all.
    """
    found = by_implementation(outcomes)
    several = len(devices(outcomes)) > 1
    rows, below = [], {}
    for place, ((name, device), members) in enumerate(found.items()):
        rows.append((_name(f"{name} on {device}" if several else name), _outcome_cell(members, sampled.get(name, 0))))
        lines = (*(_unsupported(members) if reasons else ()), *_failed(members, again))
        below[place] = Points((*lines, *_validated(members, reasons, verbose)))
    if len(found) > 1:
        rows.append((text(f"{len(found)} in all"), _outcome_cell(outcomes)))
    columns = (Column("implementation"), Column("outcome"))
    return terminal.render(Page("Summary", (Table(columns, tuple(rows), below),)))


def comparison_lines(found: Sequence[RunComparison]) -> list[str]:
    """What two sides differ in, machine by machine: outcomes, times, memory."""
    return terminal.render(comparison_page(found))


def _name(words: str) -> Cell:
    return text(words, LONGEST_NAME)


def _failed(outcomes: Sequence[Outcome], again: Mapping[str, Sequence[str]]) -> Iterator[Note | Points]:
    """A line for each group of failures, and below it the command that runs one again; last, what was skipped."""
    found = groups((of for of in outcomes if of.status in FAILURES and not of.lenient), again)
    for group in sorted(found, key=lambda group: group.example.reason == Reason.SKIPPED):
        known = f"known as {group.example.known}, " if group.example.known else ""
        yield note(f"{group.count} × {known}{_with_short_words(group.says)}", longest=LONGEST_SAID)
        if group.example.reason != Reason.SKIPPED:
            yield Points((note(code(group.rerun)),))


def _validated(outcomes: Sequence[Outcome], always: bool, verbose: bool) -> Iterator[Note | Points]:
    """How many bad inputs were refused, in a line, and with `verbose` each that was accepted.

    Of several implementations it is printed, unless `always`, of those that accepted some and do not fail for it.
    """
    found = validation(outcomes)
    if not found.total or not (always or found.lenient):
        return
    yield note(found.says if verbose or not found.lenient else f"{found.says} (-v lists the others)")
    if verbose:
        said = (f"{of.detail.removeprefix(INPUT_VALIDATION)} ({of.case})" for of in found.lenient)
        yield Points(tuple(note(each, longest=LONGEST_SAID) for each in said))


def _with_short_words(said: str) -> str:
    """The message with the middle left out of each word that no line of a terminal holds."""
    half = LONGEST_WORD // 2
    return " ".join(word if len(word) <= LONGEST_WORD else f"{word[:half]}…{word[-half:]}" for word in said.split(" "))


def _unsupported(outcomes: Sequence[Outcome]) -> Iterator[Note]:
    """A line for each reason why cases were unsupported."""
    reasons = Counter(outcome.detail for outcome in outcomes if outcome.status == Status.UNSUPPORTED).most_common()
    shown = (
        len(reasons) if len(reasons) == MOST_REASONS + 1 else MOST_REASONS
    )  # the last takes no more room than a count
    for reason, times in reasons[:shown]:
        yield note(f"{times} × unsupported: {reason}", longest=LONGEST_SAID)
    if others := [times for _, times in reasons[shown:]]:
        yield note(f"{sum(others)} × unsupported for {len(others)} other reasons")


def _outcome_cell(outcomes: Sequence[Outcome], of: int = 0) -> Cell:
    """`3 of 24 passed, 21 failed; 2 more unsupported`: the tests that ran, those that did not, whether it is a sample.

    Of a sample, `of` is the number of all tests.
    """
    counts, validated = count(correctness(outcomes)), validation(outcomes)
    only_validated = 0 if counts.run else validated.total
    if not counts.run and not counts.unsupported and not only_validated:
        reasons = sorted({plain(outcome.detail) for outcome in outcomes if outcome.detail})
        return text(f"missing: {'; '.join(reasons)}" if reasons else "missing", LONGEST_CODE)
    more = " more" if counts.run or only_validated else ""
    ran = {
        f"{counts.passed} of {counts.run} passed": counts.run,
        f"{validated.refused} of {validated.total} tests of input validation passed": only_validated,
        breakdown(outcomes): counts.failures,
        f"{counts.known} known to fail": counts.known,
    }
    did_not_run = {
        f"{counts.unsupported}{more} unsupported": counts.unsupported,
        f"{counts.missing}{more} missing": counts.missing,
    }
    sample = {f"a sample: {len(outcomes):,} of {of:,} tests": of}
    sides = (", ".join(part for part, number in side.items() if number) for side in (ran, did_not_run, sample))
    return text("; ".join(filter(None, sides)))


def benchmark_lines(measurements: Sequence[Measurement], shape: str = "", baseline: str = "") -> list[str]:
    """A heading for each table and a line per implementation: median, speed, peak memory; or why it has no time.

    Rows about all workloads come first. No markup, no control codes. `measurements` are of one run; `shape` is the
    workload's in words, `baseline` the implementation that others are compared with, without its contract.
    """
    about_all = [of for of in measurements if of.workload == EVERY_CASE]
    columns = (Column("implementation"), Column("outcome"))
    rows = tuple((_name(of.implementation), text(_without_time(of), LONGEST_SAID)) for of in about_all)
    lines: list[Block] = [Table(columns, rows)] if rows else []
    contracts = {of.contract: ContractFacts(baseline=baseline) for of in measurements}
    for found in tables((("", of) for of in measurements if of.workload != EVERY_CASE), contracts):
        heading = ", ".join(filter(None, (found.workload, shape, timed.setting_words(found.setting))))
        lines.append(_timed(found.rows, heading))
    return terminal.render(Page("Benchmark", tuple(lines)))


def _timed(rows: Sequence[Row], heading: str) -> Section:
    unit = time_unit(row.time.median for row in rows if row.time)
    heads = ("time", "interval", "speed", "peak memory")
    columns = (Column("implementation"), *(Column(head, right=True) for head in heads))
    below = {place: points([said]) for place, row in enumerate(rows) if (said := _not_bounded(row.measurement))}
    return section(plain(heading, LONGEST_SAID), Table(columns, tuple(_line(row, unit) for row in rows), below))


def _not_bounded(of: Measurement) -> str:
    """Why the suite's own clock does not bound a time; empty where it does."""
    return plain(f"not bounded{of.detail.removeprefix(NOT_BOUNDED)}", LONGEST_SAID) * of.detail.startswith(NOT_BOUNDED)


def _line(row: Row, unit: Unit) -> tuple[Cell, ...]:
    name = _name(row.measurement.implementation)
    if not row.time:
        return name, text(_without_time(row.measurement), LONGEST_SAID)
    compared = row.verdict if row.verdict == BASELINE else timed.verdict(row)
    return name, *map(cell, (unit.format(row.time.median), _spread(row.time), compared, timed.peak(row)))


def _without_time(of: Measurement) -> str:
    status = timed.absence(of)
    said = of.detail if of.detail.startswith(status) else f"{status}: {of.detail}" if of.detail else status
    return plain(said, LONGEST_SAID)


def _spread(of: Interval) -> str:
    """How far the ends of the interval lie from the median."""
    if of.low <= 0:
        return timed.TOO_FEW
    below, above = (percent(abs(end - of.median) / of.median) for end in (of.low, of.high))
    return f"±{below}" if below == above else f"−{below} +{above}"
