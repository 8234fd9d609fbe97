"""What became of times, memory and answers over runs: series with their steps, and what changed beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path

from attnsuite.model import History, Run, Snapshot
from attnsuite.model.uncollected import uncollected
from attnsuite.results.history.answers import conformance_of
from attnsuite.results.history.baseline import beside
from attnsuite.results.history.marks import marked
from attnsuite.results.history.series import series_of
from attnsuite.results.history.statuses import status_changes
from attnsuite.results.history.steps import LEAST
from attnsuite.results.store import history as store
from attnsuite.results.store.at_commit import commit_dates


@uncollected()
def history_of(results: Path, baseline: str = "", by_commit: bool = False) -> History:
    """The history of a folder of results, by machine and then in the order in which runs started.

    `baseline` is the implementation, by its full name, to which ratios refer; by default each contract's own, as the
    runs note it. `by_commit` orders runs by the dates of their commits, as far as git knows these, and has what was
    measured of older commits later in its place. Raises UsageError for a file of history that is not as it was written.
    """
    kept = store.read(results)
    if baseline:
        kept = [beside(each, baseline) for each in kept]
    machines = [list(of) for _, of in groupby(kept, key=lambda each: each.run.machine.name)]
    if by_commit:
        dates = commit_dates(results)
        machines = [sorted(of, key=lambda each: _dated(each.run, dates)) for of in machines]
    series = tuple(series for of in machines for series in series_of(of))
    return History(
        tuple(run for of in machines for run in marked(of)),
        series,
        tuple(answers for of in machines for answers in conformance_of(of)),
        tuple(changed for of in machines for changed in status_changes(of)),
        tuple(_left_out(kept)),
        2 * LEAST,
    )


def _dated(run: Run, dates: Mapping[str, str]) -> tuple[str, str]:
    """The date of a run's commit, or else its own; and its own, for runs of one commit."""
    return dates.get(run.commit.removesuffix("-dirty"), run.started), run.started


def _left_out(kept: list[Snapshot]) -> Iterator[str]:
    if count := sum(each.left_out for each in kept):
        yield f"{count} measurements are not in history, for their runs were too large"
