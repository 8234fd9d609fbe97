"""`attnsuite compare`: two sides of results, what changed between them, and whether that fails."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING

from msgspec import structs

from attnsuite.cli.declared.common import check_shapes
from attnsuite.cli.json_rows import JsonRows
from attnsuite.model import Measurement, UsageError, escaped
from attnsuite.model.compared import FAIL_ON, Change, Compared, Ratio
from attnsuite.model.options import check_dtypes
from attnsuite.model.statistics import LEVEL
from attnsuite.model.uncollected import uncollected
from attnsuite.report.comparison import failing_lines
from attnsuite.report.summary import comparison_lines
from attnsuite.results.comparison.machines import compared
from attnsuite.results.comparison.sides import side
from attnsuite.results.comparison.signed_rank import pairs_needed

if TYPE_CHECKING:
    from attnsuite.cli.declared.compare import Compare

ALONE = ("workloads", "shapes", "dtypes", "python", "contract", "backward", "budget", "pairs")
"""Options that say how both are timed, and so go with --interleaved alone."""
FEWEST = pairs_needed(1, LEVEL)
"""Pairs of processes without which no verdict on a single comparison is possible."""


def check_options(of: Compare) -> None:
    """Raises UsageError for options that do not exist, or do not go together."""
    if unknown := [name for name in of.fail_on if name not in FAIL_ON]:
        raise UsageError(f"--fail-on is one of {', '.join(FAIL_ON)}, not {unknown[0]!r:.80}")
    if not 0 <= of.margin < 1:
        raise UsageError(f"--margin is a share from 0 to below 1, as 0.05 for 5 %, not {of.margin:g}")
    if of.pairs is not None and of.pairs < FEWEST:
        raise UsageError(f"--pairs {of.pairs} is too few: a verdict takes {FEWEST} pairs of processes or more")
    if of.interleaved:
        check_dtypes(of.dtypes)
        check_shapes(of.shapes)
        return
    if given := [name for name in ALONE if getattr(of, name)]:
        raise UsageError(f"--{given[0].rstrip('s')} goes with --interleaved, which times both; results are as they are")


@uncollected()
def compare(of: Compare) -> int:
    """Compare two sides of results; 1 if that fails."""
    old, new = (side(word, of.results) for word in (of.old, of.new))
    return show(compared(old, new, of.margin), of)


def show(found: Sequence[Compared], of: Compare) -> int:
    """Print what was found, write it as JSON, and return the exit status."""
    lines = sys.stderr if of.json == "-" else sys.stdout
    said = comparison_lines(found)
    if of.fail_on:
        said += failing_lines(found, of.fail_on, of.margin)
    with JsonRows(of.json) as rows:
        for line in said:
            print(escaped(line), file=lines)
        for each in found:
            for row in _rows(each):
                rows.write(row)
    lines.flush()
    return int(any(each.failures(of.fail_on) for each in found))


def _rows(found: Compared) -> Iterator[Mapping[str, object]]:
    sides = {"old_side": found.old, "new_side": found.new}
    for change in (*found.outcomes, *found.measurements):
        yield {**_asked(change), "what": "status", "worse": change.worse, "old": change.old, "new": change.new, **sides}
    for ratio in (*found.times, *found.memories):
        numbers = {name: getattr(ratio, name) for name in ("old", "new", "ratio", "low", "high")}
        finite = {name: number if isfinite(number) else None for name, number in numbers.items()}
        said = {"what": ratio.what, "worse": ratio.worse, "verdict": ratio.verdict, "why": ratio.why}
        yield {**_asked(ratio), **said, **finite, **sides}


def _asked(of: Change | Ratio) -> dict[str, object]:
    """What a row of the suite was about: its key, in words, and its status."""
    names = ("implementation", "contract", "workload", "dtype", "device", "threads", "direction", "cache", "status")
    if isinstance(of.row, Measurement):
        return {name: getattr(of.row, name) for name in names}
    row = structs.asdict(of.row)
    return {name: row[name] for name in ("implementation", "contract", "case", "dtype", "device", "status", "detail")}
