"""`attnsuite history`: stored runs, chosen and printed, and runs that are added to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from attnsuite.cli import requests
from attnsuite.cli.targets import told
from attnsuite.model import History, UsageError
from attnsuite.model.uncollected import uncollected
from attnsuite.report.history import csv_text, json_text, text_lines
from attnsuite.results.history import history_of
from attnsuite.results.store import history as store
from attnsuite.results.store.at_commit import split
from attnsuite.results.store.past import add_commits

MOST_NAMES = 12
"""Names that an error lists where one does not exist."""


def run(options: requests.History) -> None:
    """Print the history, or add to it. Raises UsageError without one, and for a pattern that matches nothing."""
    if options.words[:1] == ("add",):
        add(options.words[1:], options.results)
        return
    chosen = choose(_read(options), options)
    if options.format == "json":
        print(json_text(chosen))
    elif options.format == "csv":
        print(csv_text(chosen), end="")
    else:
        one_by_one = options.all or bool(options.words or options.workloads)
        print("\n".join(text_lines(chosen, options.results, one_by_one)))


def _read(options: requests.History) -> History:
    baseline = options.baseline
    name = baseline if "/" in baseline or not baseline else f"attention/{baseline}"
    history = history_of(options.results, name, options.by_commit)
    if not history.runs:
        add = "`attnsuite history add` begins it with the runs that are there"
        raise UsageError(f"{options.results} has no history; {add}")
    if name and not any(each.baseline == name for each in history.series):
        others = _listed(each.implementation for each in history.series)
        raise UsageError(f"history has no ratios to {name:.80}; times of it would have to be there: {others}")
    return history


def choose(history: History, options: requests.History) -> History:
    """The history of the named implementations, workloads and machines. UsageError for a pattern without a match."""
    every = {each.implementation for each in history.series} | {each.implementation for each in history.conformance}
    timed = {each.workload for each in history.series} | {each.workload for each in history.statuses}
    names = _matching("implementation", options.words, every)
    workloads = _matching("workload", options.workloads, timed)
    machines = _matching("machine", options.machines, {each.machine for each in history.runs})
    return replace(
        history,
        runs=tuple(each for each in history.runs if each.machine in machines),
        series=tuple(
            each
            for each in history.series
            if each.implementation in names and each.workload in workloads and each.machine in machines
        ),
        conformance=tuple(
            each
            for each in history.conformance
            if each.implementation in names and not options.workloads and each.machine in machines
        ),
        statuses=tuple(
            each
            for each in history.statuses
            if each.implementation in names and each.workload in workloads and each.machine in machines
        ),
    )


@uncollected()
def add(words: Sequence[str], results: Path) -> None:
    """Store the runs of these folders and commits (by default of `results`), and print what is new.

    Raises UsageError for what cannot be read; what was added by then stays.
    """
    new: list[Path] = []
    for word in words or [str(results)]:
        folder, commit = split(word)
        if not commit:
            new += _printed(store.add(results, folder))
            continue
        for added in add_commits(results, folder, commit):
            new += _printed(added.paths)
            if added.why:
                told(f"{added.commit:.12} is skipped: {added.why}")
    files = store.paths(results)
    size = sum(path.stat().st_size for path in files)
    print(f"{results}: {len(new)} runs are new or hold more; {len(files)} are stored, in {size / 1e3:.0f} kB")


def _printed(paths: Iterable[Path]) -> list[Path]:
    added = list(paths)
    for path in added:
        print(path, flush=True)
    return added


def _matching(what: str, patterns: Sequence[str], names: set[str]) -> set[str]:
    """The names that any pattern fits: whole, by contract, or without it. All names without a pattern."""
    for pattern in patterns:
        if not any(_fits(name, pattern) for name in names):
            raise UsageError(f"history has no {what} {pattern!r:.80}; {_listed(names)}")
    return {name for name in names if not patterns or any(_fits(name, pattern) for pattern in patterns)}


def _fits(name: str, pattern: str) -> bool:
    return any(fnmatchcase(part, pattern) for part in (name, name.partition("/")[0], name.partition("/")[2]))


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(set(filter(None, names)))
    more = f" and {len(ordered) - MOST_NAMES} more" if len(ordered) > MOST_NAMES else ""
    return f"it has {', '.join(ordered[:MOST_NAMES])}{more}" if ordered else "it has none"
