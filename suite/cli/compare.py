"""`attnsuite compare`: print what changed between two sets of results, or between two targets timed now."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from attnsuite import machine, registry
from attnsuite.cli.bench import load_lines
from attnsuite.cli.campaign import request_of
from attnsuite.cli.ending import FAILED
from attnsuite.cli.options import words
from attnsuite.cli.outputs import JsonRows
from attnsuite.cli.requests import Compare
from attnsuite.cli.targets import print_hint
from attnsuite.contracts import contract as contract_named
from attnsuite.model import Measurement, Outcome, Status, UsageError, escaped
from attnsuite.model.comparison import INCONCLUSIVE, SLOWER, Change, Ratio, RunComparison
from attnsuite.model.garbage_collection import gc_paused
from attnsuite.model.statistics import rounds_needed
from attnsuite.registry import Declaration
from attnsuite.report.comparison import failing_lines
from attnsuite.report.summary import comparison_lines
from attnsuite.results import ratios as paired
from attnsuite.results.commits import results_at, split
from attnsuite.results.compare import both, changes, compared, side

if TYPE_CHECKING:
    from attnsuite.benchmark.interleaved import Interleaved, Pair, Rows
    from attnsuite.benchmark.request import Table

INTERLEAVED = ("workloads", "shapes", "dtypes", "contract", "backward", "budget", "pairs")
"""Options of --interleaved: how both sides are timed."""


def run(options: Compare) -> int:
    """Compare both sides; 1 if a difference of --fail-on is found."""
    if options.pairs is not None and options.pairs < FEWEST:
        raise UsageError(f"--pairs expects at least {FEWEST}, which a verdict needs; got {options.pairs}")
    if options.interleaved:
        return show([timed_now(options)], options)
    if wrong := words(options, *INTERLEAVED):
        raise UsageError(f"{wrong[0]} is for --interleaved; stored results are compared as they are")
    if timed := [word for word in options.fail_on if word in (SLOWER, INCONCLUSIVE)]:
        raise UsageError(f"--fail-on {timed[0]} needs --interleaved: times of stored runs have no verdict")
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


FEWEST = rounds_needed(1)
"""Pairs of processes without which no verdict on a single comparison is possible."""
BUDGET = 0.3
"""Seconds of timed calls for each side, workload and pair of processes: pairs differ by more than rounds."""


def timed_now(options: Compare) -> RunComparison:
    """What differs when both sides are timed against each other."""
    with ExitStack() as stack:
        old, new = (_side(stack, word, options.contract) for word in (options.old, options.new))
        timing = _interleaved(options, _pairs(options, old, new))
        tables, outcomes = timing.tables(), timing.outcomes()
        processes = options.pairs or paired.pairs_of(len(tables) * len(timing.pairs))
        done = list(timing.measure(processes))
        rows = {key: [pair[key] for pair in done] for key in done[0]}
        notes = [*_counts(processes, rows), *load_lines(timing.busy)]
        return _compared(options, notes, outcomes, rows)


def _compared(
    options: Compare,
    notes: Sequence[str],
    outcomes: Mapping[str, Sequence[Outcome]],
    rows: Mapping[tuple[str, Table], Sequence[Rows]],
) -> RunComparison:
    """What the pairs of processes show."""
    timed = [pair for pair in (paired.PairedTimes(_timed(row)) for row in rows.values()) if pair.pairs]
    statuses = [[_status([pair[place] for pair in pairs]) for pairs in rows.values()] for place in (0, 1)]
    old, new = (f"{word}, torch {machine.versions()['torch']}" for word in (options.old, options.new))
    before, after = outcomes["old"], outcomes["new"]
    return RunComparison(
        old,
        new,
        list(notes),
        both(before, after),
        changes(before, after),
        changes(*statuses),
        paired.times(timed, options.margin),
        paired.memories(timed, options.margin),
    )


def _counts(processes: int, rows: Mapping[tuple[str, Table], Sequence[Rows]]) -> Iterator[str]:
    """In how many pairs of processes both sides were timed, and how many of these are skipped."""
    yield f"timed against each other in {processes} pairs of processes"
    for (name, table), pairs in rows.items():
        if 0 < (timed := len(_timed(pairs))) < len(pairs):
            skipped = f"{len(pairs) - timed} of {len(pairs)} pairs are skipped, because one side has no time"
            yield f"{name} {table.title}: {skipped}"


def _timed(rows: Sequence[Rows]) -> list[Rows]:
    """The pairs in which both sides were timed."""
    return [pair for pair in rows if all(row.status == Status.MEASURED for row in pair)]


def _status(rows: Sequence[Measurement]) -> Measurement:
    """A row without a time where most processes have none: a busy machine may let the time of one be refused."""
    without = [row for row in rows if row.status != Status.MEASURED]
    return without[0] if 2 * len(without) > len(rows) else next(row for row in rows if row not in without)


def _interleaved(options: Compare, pairs: Sequence[Pair]) -> Interleaved:
    from attnsuite.benchmark.interleaved import Interleaved
    from attnsuite.benchmark.request import Request

    contracts = {pair.old.contract for pair in pairs}
    if len(contracts) > 1:
        raise UsageError("implementations of one contract can be compared at a time: add --contract C")
    threads = (options.threads,) if options.device == "cpu" else ()
    request = request_of(Request, options, threads=threads, budget=options.budget or BUDGET)
    timing = Interleaved(contract_named(contracts.pop()), pairs, request, print_hint)
    timing.tables()  # raises for a workload that does not exist, before anything is started
    return timing


def _pairs(options: Compare, old: Sequence[Declaration], new: Sequence[Declaration]) -> list[Pair]:
    """The only implementations of both sides, or those with the same name."""
    from attnsuite.benchmark.interleaved import Pair

    if len(old) == len(new) == 1:
        before, after = old[0], new[0]
        same = before.full_name == after.full_name
        return [Pair(after.full_name if same else f"{after.full_name} for {before.name}", before, after)]
    olds, news = ({declaration.full_name: declaration for declaration in side} for side in (old, new))
    if names := [name for name in news if name in olds]:
        return [Pair(name, olds[name], news[name]) for name in names]
    raise UsageError(f"{options.old} and {options.new} have no implementation in common: name one on each side")


def _side(stack: ExitStack, word: str, contract: str | None) -> list[Declaration]:
    """The implementations that a word such as `kernel.py:attention@main` names."""
    folder, commit = (Path(word), "") if Path(word).exists() else split(word)
    named = registry.find([str(folder)], contract)
    if commit:
        named = [old for new in named for old in _at_commit(stack, new, str(folder), commit)]
    readable = [declaration for declaration in named if not declaration.broken]
    if not readable:
        raise UsageError(f"{word} cannot be read: {named[0].broken}")
    return readable


def _at_commit(stack: ExitStack, declaration: Declaration, target: str, commit: str) -> list[Declaration]:
    """The same function in its file as it was at a commit, with the files of its folder."""
    module = declaration.module
    if declaration.backend or not declaration.file or (module and not module.startswith("attnsuite.implementations.")):
        raise UsageError(f"{target}@{commit}: only a file can be read at a commit; name one")
    file = Path(declaration.file).resolve()
    folder = stack.enter_context(results_at(file.parent, commit))
    if not (folder / file.name).is_file():
        raise UsageError(f"the commit {commit:.80} has no file {file.name} in {file.parent}")
    return registry.find([f"{folder / file.name}:{declaration.function}".removesuffix(":")], declaration.contract)
