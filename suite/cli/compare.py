"""`attnsuite compare`: print what changed between two sets of results, or between two targets timed now."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite

from msgspec import structs

from attnsuite.cli import interleaved
from attnsuite.cli.exit_status import FAILED
from attnsuite.cli.json_rows import JsonRows
from attnsuite.cli.options import words
from attnsuite.cli.requests import Compare
from attnsuite.model import Measurement, UsageError, escaped
from attnsuite.model.comparison import Change, Ratio, RunComparison
from attnsuite.model.garbage_collection import gc_paused
from attnsuite.report.comparison import failing_lines
from attnsuite.report.summary import comparison_lines
from attnsuite.results.compare import compared, side

INTERLEAVED = ("workloads", "shapes", "dtypes", "python", "contract", "backward", "budget", "pairs")
"""Options of --interleaved: how both sides are timed."""


def run(options: Compare) -> int:
    """Compare both sides; 1 if a difference of --fail-on is found."""
    if options.pairs is not None and options.pairs < interleaved.FEWEST:
        raise UsageError(f"--pairs expects at least {interleaved.FEWEST}, which a verdict needs; got {options.pairs}")
    if options.interleaved:
        comparison, stopped = interleaved.compared(options)
        status = show([comparison], options)
        if stopped:
            raise stopped
        return status
    if wrong := words(options, *INTERLEAVED):
        raise UsageError(f"{wrong[0]} is for --interleaved; stored results are compared as they are")
    return _results(options)


@gc_paused()
def _results(options: Compare) -> int:
    old, new = (side(word, options.results) for word in (options.old, options.new))
    return show(compared(old, new, options.margin), options)


def show(comparisons: Sequence[RunComparison], options: Compare) -> int:
    """Print the differences, write them as JSON, and return the exit status."""
    lines = sys.stderr if options.json == "-" else sys.stdout
    report = comparison_lines(comparisons)
    if options.fail_on:
        report += failing_lines(comparisons, options.fail_on, options.margin)
    with JsonRows(options.json) as rows:
        for line in report:
            print(escaped(line), file=lines)
        for comparison in comparisons:
            for row in _rows(comparison):
                rows.write(row)
    lines.flush()
    return FAILED if any(comparison.failures(options.fail_on) for comparison in comparisons) else 0


def _rows(comparison: RunComparison) -> Iterator[Mapping[str, object]]:
    sides = {"old_side": comparison.old, "new_side": comparison.new}
    for change in (*comparison.outcomes, *comparison.measurements):
        statuses = {"what": "status", "worse": change.worse, "old": change.old, "new": change.new}
        yield {**_key(change), **statuses, **sides}
    for ratio in (*comparison.times, *comparison.memories):
        numbers = {name: getattr(ratio, name) for name in ("old", "new", "ratio", "low", "high")}
        finite = {name: number if isfinite(number) else None for name, number in numbers.items()}
        verdict = {"what": ratio.what, "worse": ratio.worse, "verdict": ratio.verdict, "why": ratio.why}
        yield {**_key(ratio), **verdict, **finite, **sides}


def _key(difference: Change | Ratio) -> dict[str, object]:
    """The fields that identify a row, and its status."""
    measured = ("implementation", "contract", "workload", "dtype", "device", "threads", "direction", "cache", "status")
    tested = ("implementation", "contract", "case", "dtype", "device", "status", "detail")
    row = structs.asdict(difference.row)
    return {name: row[name] for name in (measured if isinstance(difference.row, Measurement) else tested)}
