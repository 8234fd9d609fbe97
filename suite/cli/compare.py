"""`attnsuite compare`: two sides of results, or two targets timed now; what changed, and whether that fails."""

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
"""Options that go with --interleaved only: how both sides are timed."""


def run(options: Compare) -> int:
    """Compare both sides; 1 if a difference of --fail-on is found."""
    if options.pairs is not None and options.pairs < interleaved.FEWEST:
        least = f"a verdict takes {interleaved.FEWEST} pairs of processes or more"
        raise UsageError(f"--pairs {options.pairs} is too few: {least}")
    if options.interleaved:
        comparison, stopped = interleaved.compared(options)
        status = show([comparison], options)
        if stopped:
            raise stopped
        return status
    if wrong := words(options, *INTERLEAVED):
        raise UsageError(f"{wrong[0]} goes with --interleaved, which times both; results are as they are")
    return _results(options)


@gc_paused()
def _results(options: Compare) -> int:
    old, new = (side(word, options.results) for word in (options.old, options.new))
    return show(compared(old, new, options.margin), options)


def show(comparisons: Sequence[RunComparison], options: Compare) -> int:
    """Print the differences, write them as JSON, and return the exit status."""
    lines = sys.stderr if options.json == "-" else sys.stdout
    shown = comparison_lines(comparisons)
    if options.fail_on:
        shown += failing_lines(comparisons, options.fail_on, options.margin)
    with JsonRows(options.json) as rows:
        for line in shown:
            print(escaped(line), file=lines)
        for comparison in comparisons:
            for row in _rows(comparison):
                rows.write(row)
    lines.flush()
    return FAILED if any(each.failures(options.fail_on) for each in comparisons) else 0


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


def _key(of: Change | Ratio) -> dict[str, object]:
    """What a row is about, in words, and its status."""
    measured = ("implementation", "contract", "workload", "dtype", "device", "threads", "direction", "cache", "status")
    tested = ("implementation", "contract", "case", "dtype", "device", "status", "detail")
    row = structs.asdict(of.row)
    return {name: row[name] for name in (measured if isinstance(of.row, Measurement) else tested)}
