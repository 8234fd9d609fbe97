"""`attnsuite history`: what is kept of runs, chosen and printed, and runs that are added to it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from attnsuite.model import History, UsageError
from attnsuite.model.uncollected import uncollected
from attnsuite.report.history import csv_text, json_text, text_lines
from attnsuite.results.history import history_of
from attnsuite.results.store import history as store
from attnsuite.results.store.at_commit import split
from attnsuite.results.store.past import add_commits

if TYPE_CHECKING:
    from attnsuite.cli.declared.history import History as Options

MOST_NAMES = 12
"""Names that exist, said where one does not."""


def show(options: Options) -> None:
    """Print what is kept. Raises UsageError where nothing is, and for a name or a pattern that fits nothing."""
    found = _read(options.results, options.baseline, options.by_commit)
    chosen = choose(found, options.words, options.workloads, options.machines)
    if options.format == "json":
        print(json_text(chosen))
    elif options.format == "csv":
        print(csv_text(chosen), end="")
    else:
        each = options.all or bool(options.words or options.workloads)
        print("\n".join(text_lines(chosen, options.results, each)))


def _read(results: Path, baseline: str, by_commit: bool) -> History:
    name = baseline if "/" in baseline or not baseline else f"attention/{baseline}"
    found = history_of(results, name, by_commit)
    if not found.runs:
        raise UsageError(f"{results} keeps no history; `attnsuite history add` begins it with the runs that are there")
    if name and not any(each.baseline == name for each in found.series):
        others = (each.implementation for each in found.series)
        raise UsageError(f"history has no ratios to {name:.80}; times of it would have to be there: {_among(others)}")
    return found


def choose(of: History, targets: Sequence[str], workloads: Sequence[str], machines: Sequence[str]) -> History:
    """The history of some implementations, workloads and machines; each is a name or a pattern, and none is all.

    Raises UsageError for one that fits nothing.
    """
    names = {each.implementation for each in of.series} | {each.implementation for each in of.conformance}
    wanted = _fitting("implementation", targets, names)
    asked = _fitting(
        "workload", workloads, {each.workload for each in of.series} | {each.workload for each in of.statuses}
    )
    places = _fitting("machine", machines, {each.machine for each in of.runs})
    series = (each for each in of.series if each.implementation in wanted and each.workload in asked)
    conformance = (each for each in of.conformance if each.implementation in wanted and not workloads)
    statuses = (each for each in of.statuses if each.implementation in wanted and each.workload in asked)
    return replace(
        of,
        runs=tuple(each for each in of.runs if each.machine in places),
        series=tuple(each for each in series if each.machine in places),
        conformance=tuple(each for each in conformance if each.machine in places),
        statuses=tuple(each for each in statuses if each.machine in places),
    )


@uncollected()
def add(words: Sequence[str], results: Path) -> None:
    """Keep the runs of these folders and commits (by default of `results`), and say what is new.

    Raises UsageError for what cannot be read; what was added by then stays.
    """
    count = 0
    for word in words or [str(results)]:
        folder, commit = split(word)
        if not commit:
            count += _said(store.add(results, folder))
            continue
        for added in add_commits(results, folder, commit):
            count += _said(added.paths)
            if added.why:
                print(f"{added.commit:.12} is left out: {added.why}", file=sys.stderr)
    files = store.paths(results)
    size = sum(path.stat().st_size for path in files)
    print(f"{results}: {count} runs are new or hold more; {len(files)} are kept, in {size / 1e3:.0f} kB")


def _said(paths: Iterable[Path]) -> int:
    count = 0
    for path in paths:
        print(path, flush=True)
        count += 1
    return count


def _fitting(what: str, patterns: Sequence[str], names: set[str]) -> set[str]:
    found: set[str] = set()
    for pattern in patterns:
        fitting = {name for name in names if _fits(name, pattern)}
        if not fitting:
            raise UsageError(f"history has no {what} {pattern!r:.80}; {_among(names)}")
        found |= fitting
    return found if patterns else names


def _fits(name: str, pattern: str) -> bool:
    """Whether a pattern is for a whole name, its contract or what is after that."""
    return any(fnmatchcase(part, pattern) for part in (name, name.partition("/")[0], name.partition("/")[2]))


def _among(names: Iterable[str]) -> str:
    ordered = sorted(set(filter(None, names)))
    more = f" and {len(ordered) - MOST_NAMES} more" if len(ordered) > MOST_NAMES else ""
    return f"it has {', '.join(ordered[:MOST_NAMES])}{more}" if ordered else "it has none"
