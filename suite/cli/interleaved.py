"""`attnsuite compare --interleaved`: two targets or commits, timed against each other in one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attnsuite import machine, registry
from attnsuite.cli.campaign import request_of
from attnsuite.cli.requests import Compare
from attnsuite.cli.targets import told
from attnsuite.contracts import contract as contract_named
from attnsuite.model import Measurement, Outcome, Status, UsageError
from attnsuite.model.comparison import RunComparison
from attnsuite.model.statistics import LEVEL
from attnsuite.registry import Declaration
from attnsuite.results import ratios as paired
from attnsuite.results.commits import results_at, split
from attnsuite.results.compare import both, changes
from attnsuite.results.ratios import pairs_needed

if TYPE_CHECKING:
    from attnsuite.benchmark.interleaved import Interleaved, Pair, Rows
    from attnsuite.benchmark.request import Table

FEWEST = pairs_needed(1, LEVEL)
"""Pairs of processes without which no verdict on a single comparison is possible."""
BUDGET = 0.3
"""Seconds of timed calls for each side, workload and pair of processes: pairs differ by more than rounds."""


@dataclass(frozen=True)
class Side:
    """One side: the word that names it, and its implementations."""

    word: str
    declarations: Sequence[Declaration]


def compared(options: Compare) -> tuple[RunComparison, KeyboardInterrupt | None]:
    """What differs when both sides are timed against each other.

    After a signal that is the verdict over the pairs that are done, with the signal; raises it where these are too few.
    """
    with ExitStack() as stack:
        old, new = (_side(stack, word, options.contract) for word in (options.old, options.new))
        timing = _interleaved(options, old, new)
        tables, asked = timing.tables(), timing.outcomes()
        processes = options.pairs or paired.pairs_of(len(tables) * len(timing.pairs))
        done: list[Mapping[tuple[str, Table], Rows]] = []
        stopped: KeyboardInterrupt | None = None
        try:
            for pair in timing.measure(processes):
                done.append(pair)
        except KeyboardInterrupt as error:
            stopped = error
        if stopped and len(done) < FEWEST:
            told(f"{len(done)} of {processes} pairs are done; a verdict takes {FEWEST}")
            raise stopped
        rows = {key: [pair[key] for pair in done] for key in done[0]}
        notes = [*_counts(len(done), processes, rows), *_load(timing.busy)]
        return _compared(options, (old, new), notes, asked, rows), stopped


def _compared(
    options: Compare,
    sides: tuple[Side, Side],
    notes: Sequence[str],
    asked: Mapping[str, Sequence[Outcome]],
    rows: Mapping[tuple[str, Table], Sequence[Rows]],
) -> RunComparison:
    """What the pairs of processes that are done show."""
    timed = [pairs for pairs in (paired.Paired(_timed(each)) for each in rows.values()) if pairs.pairs]
    statuses = [[_status([row[place] for row in each]) for each in rows.values()] for place in (0, 1)]
    old, new = (f"{side.word}, torch {machine.versions()['torch']}" for side in sides)
    before, after = asked["old"], asked["new"]
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


def _counts(done: int, processes: int, rows: Mapping[tuple[str, Table], Sequence[Rows]]) -> Iterator[str]:
    """In how many pairs of processes both sides were timed, and how many of these are skipped."""
    of = f"{done} of {processes}" if done < processes else processes
    yield f"{'interrupted: ' * (done < processes)}timed against each other in {of} pairs of processes"
    for (name, table), pairs in rows.items():
        if 0 < (timed := len(_timed(pairs))) < len(pairs):
            skipped = f"{len(pairs) - timed} of {len(pairs)} pairs are skipped, because one of both has no time"
            yield f"{name} {table.title}: {skipped}"


def _load(busy: Sequence[str]) -> Iterator[str]:
    if busy:
        tables = f"in {len(busy)} table{'s' * (len(busy) != 1)}"
        yield f"{tables} {busy[-1]}: a verdict may be unclear for that reason; run it again when the machine is idle"


def _timed(rows: Sequence[Rows]) -> list[Rows]:
    """The pairs in which both sides were timed."""
    return [each for each in rows if all(row.status == Status.MEASURED for row in each)]


def _status(rows: Sequence[Measurement]) -> Measurement:
    """A row without a time where most processes have none: a busy machine may let the time of one be refused."""
    without = [row for row in rows if row.status != Status.MEASURED]
    return without[0] if 2 * len(without) > len(rows) else next(row for row in rows if row not in without)


def _interleaved(options: Compare, old: Side, new: Side) -> Interleaved:
    from attnsuite.benchmark import Request
    from attnsuite.benchmark.interleaved import Interleaved

    pairs = _pairs(old, new)
    contracts = {pair.old.contract for pair in pairs}
    if len(contracts) > 1:
        raise UsageError("implementations of several contracts are compared one contract after the other: --contract C")
    threads = (options.threads,) if options.device == "cpu" else ()
    request = request_of(Request, options, threads=threads, budget=options.budget or BUDGET)
    timing = Interleaved(contract_named(contracts.pop()), pairs, request, told)
    timing.tables()  # raises for a workload that does not exist, before anything is started
    return timing


def _pairs(old: Side, new: Side) -> list[Pair]:
    """The only implementations of both sides, or those with the same name."""
    from attnsuite.benchmark.interleaved import Pair

    if len(old.declarations) == len(new.declarations) == 1:
        before, after = old.declarations[0], new.declarations[0]
        same = before.full_name == after.full_name
        return [Pair(after.full_name if same else f"{after.full_name} for {before.name}", before, after)]
    olds, news = ({each.full_name: each for each in side.declarations} for side in (old, new))
    if names := [name for name in news if name in olds]:
        return [Pair(name, olds[name], news[name]) for name in names]
    sides = f"{old.word} names {', '.join(olds)}, {new.word} {', '.join(news)}"
    raise UsageError(f"{sides}: no implementation is in both, so name one of each")


def _side(stack: ExitStack, word: str, contract: str | None) -> Side:
    """The implementations that a word such as `kernel.py:attention@main` names."""
    folder, commit = (Path(word), "") if Path(word).exists() else split(word)
    named = registry.find([str(folder)], contract)
    if commit:
        named = [each for now in named for each in _at_commit(stack, now, str(folder), commit)]
    readable = [each for each in named if not each.broken]
    if not readable:
        raise UsageError(f"{word} cannot be read: {named[0].broken}")
    return Side(word, readable)


def _at_commit(stack: ExitStack, now: Declaration, target: str, commit: str) -> list[Declaration]:
    """The same function in its file as it was at a commit, with the files of its folder."""
    if now.backend or not now.file or (now.module and not now.module.startswith("attnsuite.implementations.")):
        other = "of a commit name a file"
        raise UsageError(f"{target}@{commit}: {other}")
    file = Path(now.file).resolve()
    folder = stack.enter_context(results_at(file.parent, commit))
    if not (folder / file.name).is_file():
        raise UsageError(f"the commit {commit:.80} has no file {file.name} in {file.parent}")
    return registry.find([f"{folder / file.name}:{now.function}".removesuffix(":")], now.contract)
