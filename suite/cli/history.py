"""`attnsuite history`: stored runs, chosen and printed, and runs that are added to them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from attnsuite.cli import requests
from attnsuite.model import UsageError
from attnsuite.model.garbage_collection import gc_paused
from attnsuite.report.history import json_text, text_lines
from attnsuite.results.commits import results_of
from attnsuite.results.history import FILE, Event, History, Series, history_of, update

MOST_NAMES = 12
"""Most names that an error message lists."""


def run(options: requests.History) -> None:
    """Print the history, or add runs to it. Raises UsageError without a history, and for a pattern without a match."""
    if options.words[:1] == ("add",):
        add(options.words[1:], options.results)
        return
    chosen = choose(_read(options), options)
    if options.format == "json":
        print(json_text(chosen))
    else:
        one_by_one = bool(options.words or options.workloads)
        print("\n".join(text_lines(chosen, options.results, one_by_one)))


def _read(options: requests.History) -> History:
    history = history_of(options.results)
    if not history.runs:
        raise UsageError(f"{options.results} has no history; `attnsuite history add` starts it with the runs there")
    return history


def choose(history: History, options: requests.History) -> History:
    """The history of the named implementations and workloads. UsageError for a pattern without a match."""
    every: list[Series | Event] = [*history.series, *history.events]
    names = _matching("implementation", options.words, {item.implementation for item in every})
    workloads = _matching("workload", options.workloads, {item.workload for item in every} - {""})

    def wanted(item: Series | Event) -> bool:
        timed = item.workload in workloads or not (item.workload or options.workloads)
        return item.implementation in names and timed

    return replace(
        history,
        series=tuple(filter(wanted, history.series)),
        events=tuple(filter(wanted, history.events)),
    )


@gc_paused()
def add(words: Sequence[str], results: Path) -> None:
    """Add the runs of `results`, and of these folders and commits, to its history.csv.

    Raises UsageError for what cannot be read; what was added by then stays.
    """
    count = update(results)
    for word in words:
        with results_of(word) as there:
            count += update(results, there)
    print(f"{results / FILE}: {count} new run{'s' * (count != 1)}")


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
