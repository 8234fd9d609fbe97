"""Terminal lines: the summary of a check from its outcomes, and the table of a benchmark from its measurements."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from attnsuite.model import EVERY_CASE, FAILURES, INPUT_VALIDATION, ContractFacts, Measurement, Outcome, Reason, Status
from attnsuite.model.comparison import RunComparison
from attnsuite.model.limits import NOT_BOUNDED
from attnsuite.model.statistics import Interval
from attnsuite.report import terminal, timed
from attnsuite.report.comparison import comparison_page
from attnsuite.report.page import (
    LONGEST_CODE,
    Block,
    Cell,
    Column,
    Note,
    Page,
    Points,
    Section,
    Table,
    cell,
    code,
    note,
    plain,
    points,
    section,
    text,
)
from attnsuite.report.tally import breakdown, by_implementation, correctness, count, devices, groups, validation
from attnsuite.report.timed import BASELINE, Row, tables
from attnsuite.report.units import Unit, percent, time_unit

MOST_REASONS = 8
"""Reasons of unsupported cases that are listed; further ones are counted."""
LONGEST_NAME = 60
"""Characters of an implementation's name in a line of a terminal: a longer one would push numbers off the screen."""
LONGEST_SAID = 400
"""Characters of a message in a terminal: five lines."""
LONGEST_WORD = 120
"""Characters of a word in a message: paths are shorter, and the words after it stay visible."""


def summary_lines(
    outcomes: Sequence[Outcome],
    again: Mapping[str, Sequence[str]] = MappingProxyType({}),
    reasons: bool = False,
    verbose: bool = False,
    sampled: Mapping[str, int] = MappingProxyType({}),
) -> list[str]:
    """A line per implementation, its failures below it in groups, and the total: no markup, no control codes.

    `again` has the command-line words for implementations that are not registered under their name. `reasons` adds the
    reasons of unsupported cases and the number of refused bad inputs. `verbose` adds each accepted bad input. `sampled`
    maps implementations that were tested on a sample to the number of all their tests.
    """
    tested = by_implementation(outcomes)
    several = len(devices(outcomes)) > 1
    rows, below = [], {}
    for place, ((name, device), members) in enumerate(tested.items()):
        rows.append((_name(f"{name} on {device}" if several else name), _outcome_cell(members, sampled.get(name, 0))))
        lines = (*(_unsupported(members) if reasons else ()), *_failed(members, again))
        below[place] = Points((*lines, *_validated(members, reasons, verbose)))
    if len(tested) > 1:
        rows.append((text(f"{len(tested)} in all"), _outcome_cell(outcomes)))
    columns = (Column("implementation"), Column("outcome"))
    return terminal.render(Page("Summary", (Table(columns, tuple(rows), below),)))


def comparison_lines(comparisons: Sequence[RunComparison]) -> list[str]:
    """The differences of two sides, machine by machine: outcomes, times, memory."""
    return terminal.render(comparison_page(comparisons))


def _name(words: str) -> Cell:
    return text(words, LONGEST_NAME)


def _failed(outcomes: Sequence[Outcome], again: Mapping[str, Sequence[str]]) -> Iterator[Note | Points]:
    """A line per group of failures with the command that runs one again; skipped tests come last."""
    failures = groups((outcome for outcome in outcomes if outcome.status in FAILURES and not outcome.lenient), again)
    for group in sorted(failures, key=lambda group: group.example.reason == Reason.SKIPPED):
        half = LONGEST_WORD // 2  # longer words lose their middle
        message = re.sub(rf"(\S{{{half}}})\S+(\S{{{half}}})", r"\1…\2", group.message)
        yield note(f"{group.count} × {message}", longest=LONGEST_SAID)
        if group.example.reason != Reason.SKIPPED:
            yield Points((note(code(group.rerun)),))


def _validated(outcomes: Sequence[Outcome], always: bool, verbose: bool) -> Iterator[Note | Points]:
    """A line with the number of refused bad inputs; `verbose` adds each accepted one.

    Without `always`, only for an implementation that accepted some although that fails no check.
    """
    bad_input = validation(outcomes)
    if not bad_input.total or not (always or bad_input.lenient):
        return
    yield note(bad_input.message if verbose or not bad_input.lenient else f"{bad_input.message} (-v lists the others)")
    if verbose:
        messages = (f"{o.detail.removeprefix(INPUT_VALIDATION)} ({o.case})" for o in bad_input.lenient)
        yield Points(tuple(note(message, longest=LONGEST_SAID) for message in messages))


def _unsupported(outcomes: Sequence[Outcome]) -> Iterator[Note]:
    """A line for each reason why cases were unsupported."""
    reasons = Counter(outcome.detail for outcome in outcomes if outcome.status == Status.UNSUPPORTED).most_common()
    # a single further reason takes no more space than the line that counts it
    limit = MOST_REASONS + (len(reasons) == MOST_REASONS + 1)
    for reason, times in reasons[:limit]:
        yield note(f"{times} × unsupported: {reason}", longest=LONGEST_SAID)
    if others := [times for _, times in reasons[limit:]]:
        yield note(f"{sum(others)} × unsupported for {len(others)} other reasons")


def _outcome_cell(outcomes: Sequence[Outcome], sample_total: int = 0) -> Cell:
    """`3 of 24 passed, 21 failed; 2 more unsupported`: tests that ran, tests that did not, and the size of a sample."""
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
    sample = {f"a sample: {len(outcomes):,} of {sample_total:,} tests": sample_total}
    sides = (", ".join(part for part, number in side.items() if number) for side in (ran, did_not_run, sample))
    return text("; ".join(filter(None, sides)))


def benchmark_lines(measurements: Sequence[Measurement], shape: str = "", baseline: str = "") -> list[str]:
    """A heading per table and a line per implementation: median, speed, peak memory; or the reason without a time.

    Rows about all workloads come first. No markup, no control codes. `measurements` are of one run, `shape` describes
    the workload, and `baseline` names the implementation to compare with, without its contract.
    """
    about_all = [row for row in measurements if row.workload == EVERY_CASE]
    columns = (Column("implementation"), Column("outcome"))
    rows = tuple((_name(row.implementation), text(_without_time(row), LONGEST_SAID)) for row in about_all)
    lines: list[Block] = [Table(columns, rows)] if rows else []
    contracts = {row.contract: ContractFacts(baseline=baseline) for row in measurements}
    for table in tables((("", row) for row in measurements if row.workload != EVERY_CASE), contracts):
        heading = ", ".join(filter(None, (table.workload, shape, timed.setting_words(table.setting))))
        lines.append(_timed(table.rows, heading))
    return terminal.render(Page("Benchmark", tuple(lines)))


def _timed(rows: Sequence[Row], heading: str) -> Section:
    unit = time_unit(row.time.median for row in rows if row.time)
    heads = ("time", "interval", "speed", "peak memory")
    columns = (Column("implementation"), *(Column(head, right=True) for head in heads))
    details = {place: row.measurement.detail for place, row in enumerate(rows)}
    below = {
        place: points([plain(f"not bounded{detail.removeprefix(NOT_BOUNDED)}", LONGEST_SAID)])
        for place, detail in details.items()
        if detail.startswith(NOT_BOUNDED)  # the suite's own clock does not bound the time
    }
    return section(plain(heading, LONGEST_SAID), Table(columns, tuple(_line(row, unit) for row in rows), below))


def _line(row: Row, unit: Unit) -> tuple[Cell, ...]:
    name = _name(row.measurement.implementation)
    if not row.time:
        return name, text(_without_time(row.measurement), LONGEST_SAID)
    compared = row.verdict if row.verdict == BASELINE else timed.verdict(row)
    return name, *map(cell, (unit.format(row.time.median), _spread(row.time), compared, timed.memory(row)))


def _without_time(row: Measurement) -> str:
    status = timed.absence(row)
    message = row.detail if row.detail.startswith(status) else f"{status}: {row.detail}" if row.detail else status
    return plain(message, LONGEST_SAID)


def _spread(interval: Interval) -> str:
    """The distances of the interval's ends from the median, in per cent."""
    if interval.low <= 0:
        return timed.TOO_FEW
    below, above = (percent(abs(end - interval.median) / interval.median) for end in (interval.low, interval.high))
    return f"±{below}" if below == above else f"−{below} +{above}"
