"""`attnsuite compare --interleaved`: two targets, commits or environments, timed against each other in one run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import attnsuite
from attnsuite import machine, registry
from attnsuite.cli.comparing import FEWEST, show
from attnsuite.contracts import contract as contract_named
from attnsuite.model import Measurement, Outcome, Status, UsageError
from attnsuite.model.compared import Compared
from attnsuite.model.limits import TIME_LIMIT
from attnsuite.registry import Declaration
from attnsuite.results.comparison import paired
from attnsuite.results.comparison.outcomes import both, changes
from attnsuite.results.store.at_commit import results_at, split

if TYPE_CHECKING:
    from attnsuite.benchmark.interleaved import Interleaved, Pair, Rows
    from attnsuite.benchmark.request import Table
    from attnsuite.cli.declared.compare import Compare

ASK = (
    "import json, attnsuite.machine as m; "
    "print(json.dumps({'versions': m.versions(), 'suite': m.suite_hash(), 'torch': bool(__import__('torch'))}))"
)
"""What an interpreter is asked about itself."""
BUDGET = 0.3
"""Seconds of timed calls for each side, workload and pair of processes: rounds of one pair need not be many, because
pairs differ by more."""


@dataclass(frozen=True)
class Asked:
    """One side: what was named, what that is, and the versions of what its interpreter has."""

    word: str
    declarations: Sequence[Declaration]
    versions: Mapping[str, str]


def compare(of: Compare) -> int:
    """Time both sides against each other and show what differs; 1 if that fails.

    After a signal it shows the verdict over the pairs that are done, where these are enough, and raises it again.
    """
    with ExitStack() as stack:
        pythons = _pythons(of.python)
        old, new = (_asked(stack, word, python, of) for word, python in zip((of.old, of.new), pythons, strict=True))
        run = _interleaved(of, old, new)
        tables, asked = run.tables(), run.ask()
        processes = of.pairs or paired.pairs_of(len(tables) * len(run.pairs))
        done: list[Mapping[tuple[str, Table], Rows]] = []
        stopped: KeyboardInterrupt | None = None
        try:
            for pair in run.measure(processes):
                done.append(pair)
        except KeyboardInterrupt as error:
            stopped = error
        if stopped and len(done) < FEWEST:
            _tell(f"{len(done)} of {processes} pairs are done; a verdict takes {FEWEST}")
            raise stopped
        status = show([_compared(of, run, (old, new), asked, done, processes)], of)
        if stopped:
            raise stopped
        return status


def _compared(
    of: Compare,
    run: Interleaved,
    sides: Sequence[Asked],
    asked: Mapping[str, Sequence[Outcome]],
    done: Sequence[Mapping[tuple[str, Table], Rows]],
    processes: int,
) -> Compared:
    """What the pairs that are done show, of so many processes."""
    old, new = sides
    found = {key: [rows[key] for rows in done] for key in done[0]}
    timed = [of for of in (paired.Paired(_timed(rows)) for rows in found.values()) if of.pairs]
    statuses = [[_status([rows[side] for rows in each]) for each in found.values()] for side in (0, 1)]
    before, after = asked["old"], asked["new"]
    return Compared(
        _said(old),
        _said(new),
        [*_differences(old, new), *_timed_in(len(done), processes, found), *_busy(run.busy)],
        both(before, after),
        changes(before, after),
        changes(*statuses),
        paired.times(timed, of.margin),
        paired.memories(timed, of.margin),
    )


def _timed_in(done: int, processes: int, found: Mapping[tuple[str, Table], Sequence[Rows]]) -> Iterator[str]:
    """In how many pairs of processes both sides were timed, and how many of these are left out."""
    if done < processes:
        yield f"interrupted: timed against each other in {done} of {processes} pairs of processes"
    else:
        yield f"timed against each other in {processes} pairs of processes"
    for (name, table), rows in found.items():
        if 0 < len(_timed(rows)) < len(rows):
            left_out = len(rows) - len(_timed(rows))
            yield f"{name} {table.says}: {left_out} of {len(rows)} pairs are left out, for one of both has no time"


def _busy(busy: Sequence[str]) -> Iterator[str]:
    """That the machine was busy, which makes verdicts unclear: `busy` says how busy, for each table of a pair."""
    if busy:
        many = f"{len(busy)} table{'s' * (len(busy) != 1)}"
        yield f"in {many} {busy[-1]}: a verdict may be unclear for that reason; run it again when it is idle"


def _timed(rows: Sequence[Rows]) -> list[Rows]:
    """The pairs in which both sides were timed."""
    return [each for each in rows if all(row.status == Status.MEASURED for row in each)]


def _status(rows: Sequence[Measurement]) -> Measurement:
    """What became of a side: a row without a time, where most of its processes have none.

    A machine that is busy may let the time of one be refused; its pair is left out.
    """
    without = [row for row in rows if row.status != Status.MEASURED]
    return without[0] if 2 * len(without) > len(rows) else next(row for row in rows if row not in without)


def _interleaved(of: Compare, old: Asked, new: Asked) -> Interleaved:
    from attnsuite.benchmark import Request
    from attnsuite.benchmark.interleaved import Interleaved

    pairs = _pairs(old, new)
    (contract,) = contracts if len(contracts := {pair.old.contract for pair in pairs}) == 1 else ("",)
    if not contract:
        raise UsageError("implementations of several contracts are compared one contract after the other: --contract C")
    threads = (of.threads,) if of.device == "cpu" else ()
    workloads = tuple(of.workloads)
    budget = of.budget or BUDGET
    request = Request(
        workloads,
        None,
        of.device,
        of.backward,
        None,
        threads,
        TIME_LIMIT,
        budget,
        dtypes=tuple(of.dtypes),
        shapes=tuple(of.shapes),
    )
    run = Interleaved(contract_named(contract), pairs, request, _tell)
    run.tables()  # raises for a workload that does not exist, before anything is started
    return run


def _pairs(old: Asked, new: Asked) -> list[Pair]:
    """What is timed against what: the one of either side, or those of one name."""
    from attnsuite.benchmark.interleaved import Pair

    if len(old.declarations) == len(new.declarations) == 1:
        one, other = old.declarations[0], new.declarations[0]
        name = one.full_name if one.full_name == other.full_name else f"{other.full_name} for {one.name}"
        return [Pair(name, one, other)]
    before, after = ({each.full_name: each for each in side.declarations} for side in (old, new))
    if names := [name for name in after if name in before]:
        return [Pair(name, before[name], after[name]) for name in names]
    raise UsageError(
        f"{old.word} names {', '.join(before)}, {new.word} {', '.join(after)}: none of one name, so name one of each"
    )


def _asked(stack: ExitStack, word: str, python: str, of: Compare) -> Asked:
    """What a word names: a target, or a file as it was at a commit, in an interpreter."""
    versions = _versions(python) if python else machine.versions()
    found = [each for each in _found(stack, word, of.contract) if not each.broken]
    if not found:
        (broken, *_) = _found(stack, word, of.contract)
        raise UsageError(f"{word} cannot be read: {broken.broken}")
    return Asked(word, [replace(each, python=python) for each in found], versions)


def _found(stack: ExitStack, word: str, contract: str | None) -> list[Declaration]:
    target, commit = _parted(word)
    now = registry.find([target], contract)
    if not commit:
        return now
    return [each for one in now for each in _at_commit(stack, one, target, commit)]


def _parted(word: str) -> tuple[str, str]:
    """The target and the commit in a word such as `kernel.py:attention@main`; the commit may be empty."""
    if Path(word).exists():
        return word, ""
    folder, commit = split(word)
    return str(folder), commit


def _at_commit(stack: ExitStack, now: Declaration, target: str, commit: str) -> list[Declaration]:
    """The same function in its file as it was at a commit, with the files of its folder beside it."""
    if now.plug or not now.file or (now.module and not now.module.startswith("attnsuite.implementations.")):
        raise UsageError(
            f"{target}@{commit}: of a commit name a file, or install it elsewhere and name that by --python"
        )
    file = Path(now.file).resolve()
    folder = stack.enter_context(results_at(file.parent, commit))
    if not (folder / file.name).is_file():
        raise UsageError(f"the commit {commit:.80} has no file {file.name} in {file.parent}")
    return registry.find([f"{folder / file.name}:{now.function}"], now.contract)


def _pythons(given: Sequence[str]) -> tuple[str, str]:
    """The interpreters of both sides; empty for this one."""
    if len(given) > 2:
        raise UsageError(f"--python is given once for OLD and once for NEW, not {len(given)} times")
    old, new = (*given, "", "")[:2]
    return old, new


def _versions(python: str) -> dict[str, str]:
    """The versions of what an interpreter has. UsageError where it is none, or has another suite or no torch."""
    root = Path(attnsuite.__file__).resolve().parent.parent
    inside = root.name in ("site-packages", "dist-packages")
    environment = {} if inside else {"PYTHONPATH": str(root)}
    try:
        done = subprocess.run(
            [python, "-P", "-c", ASK], capture_output=True, text=True, timeout=TIME_LIMIT, env=environment, check=False
        )
        said = json.loads(done.stdout.strip().rpartition("\n")[2]) if done.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"--python {python}: {getattr(error, 'strerror', '') or error}") from None
    except ValueError:
        said = None
    if said is None:
        last = done.stderr.strip().rpartition("\n")[2]
        raise UsageError(f"--python {python} cannot run the suite: {last or 'it answers nothing'}")
    if said["suite"] != machine.suite_hash():
        raise UsageError(f"--python {python} has another attnsuite than this: install the same in both")
    return dict(said["versions"])


def _said(of: Asked) -> str:
    return f"{of.word}, torch {of.versions.get('torch', 'unknown')}"


def _differences(old: Asked, new: Asked) -> Iterator[str]:
    names = dict.fromkeys((*old.versions, *new.versions))
    changed = [name for name in names if old.versions.get(name) != new.versions.get(name)]
    if changed:
        yield "; ".join(
            f"{name} {old.versions.get(name, 'absent')} → {new.versions.get(name, 'absent')}" for name in changed
        )


def _tell(doing: str) -> None:
    print(doing, file=sys.stderr, flush=True)
