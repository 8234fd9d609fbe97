"""Runs on disk: hashes, types and ranges of every file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from attnsuite.model import Measurement, Refusal, Run, UsageError
from attnsuite.model.uncollected import uncollected
from attnsuite.results.format import FORMER, KINDS, RUN, SUFFIXES, Damaged, altered, read_rows, read_run

SLACK = 5.0
"""Seconds by which the start and the end of a run may be off: both are in whole seconds."""
SHARE = 0.01
"""The share of a run's duration by which its end may be off: a clock may be set while it runs."""


@uncollected()
def verify(machine: Path) -> list[Refusal]:
    """What is wrong with the runs in a machine's folder: altered, missing or unknown files, and damaged rows."""
    former = [Refusal(str(machine / name), "", "a file of an earlier format") for name in FORMER]
    refusals = [each for each in former if Path(each.path).exists()]
    for folder in sorted(path.parent for path in machine.glob(f"*/{RUN}")):
        try:
            run = read_run(folder)
        except Damaged as damaged:
            refusals.append(damaged.refusal)
        except UsageError as error:
            refusals.append(Refusal(str(folder / RUN), "", str(error)))
        else:
            refusals += [*_files(folder, run), *_rows(folder, run)]
    return refusals


def _files(folder: Path, run: Run) -> Iterator[Refusal]:
    if not run.finished:
        again = f"the command that began it ({run.asked[:200]!r}) goes on with the same --results"
        yield Refusal(str(folder / RUN), "", f"the run is not finished; {again}")
        return
    yield from altered(folder, run)


def _rows(folder: Path, run: Run) -> Iterator[Refusal]:
    longest = _duration(run)
    for kind in KINDS:
        refusals: list[Refusal] = []
        try:
            rows = read_rows(folder, kind, refusals)
        except Damaged as damaged:
            refusals.append(damaged.refusal)
            rows = []
        yield from refusals
        for number, row in enumerate(rows if not refusals and run.finished else (), 1):
            timed = sum(row.seconds) * row.calls if isinstance(row, Measurement) else 0.0
            if timed > longest:
                why = f"its calls took {timed:.4g} s, and the run {longest:.4g} s at most"
                yield Refusal(str(folder / f"{kind}{SUFFIXES[0]}"), f"line {number}", why)


def _duration(run: Run) -> float:
    """The longest that anything in a run can have taken, in seconds; shards that were merged ran at once."""
    try:
        started, finished = (datetime.fromisoformat(each) for each in (run.started, run.finished))
    except ValueError:
        return float("inf")
    return (finished - started).total_seconds() * (1 + SHARE) + SLACK
