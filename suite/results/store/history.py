"""The history of results: a small file for each run, which no later run replaces, in results/history/MACHINE/RUN.gz."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from attnsuite.model import Refusal, Run, Snapshot, Status, UsageError
from attnsuite.model.uncollected import uncollected
from attnsuite.results.store import columns, contents, files, ranges, snapshots
from attnsuite.results.store.files import Damaged, Refused
from attnsuite.results.store.recorded import Recorded

FOLDER = "history"
"""The folder beside those of machines."""
ADD = "`attnsuite history add` keeps it as far as they tell"
REMEDY = "restore the file, or remove it: the other runs stay"


def keep(results: Path, run: Run, records: Iterable[object]) -> Path | None:
    """Keep a run that has these records, in one step: a crash leaves the former file or the new one.

    What an earlier file of the same run holds stays. Returns the file if it is new or holds more now; else, or where
    the run has neither measurements nor outcomes, None. Raises UsageError when it cannot be written.
    """
    return _keep(results, snapshots.snapshot(run, records))


def add(results: Path, source: Path) -> Iterator[Path]:
    """Keep every finished run that a folder of results holds rows of, or keeps in a history of its own.

    Yields the files that are new or hold more now. Raises UsageError for a folder without results, and for one that
    cannot be read: what was added by then stays.
    """
    folders = sorted({file.parent for sign in contents.SIGNS for file in source.glob(f"*/{sign}")})
    there = read(source)
    if not folders and not there:
        raise UsageError(f"{source} holds no results; `attnsuite run` makes them")
    for of in there if source.resolve() != results.resolve() else ():
        yield from filter(None, [_keep(results, of)])
    for folder in folders:
        yield from _add(results, contents.read(folder))


def _add(results: Path, there: contents.Contents) -> Iterator[Path]:
    of_run: dict[str, list[contents.AnyRecord]] = defaultdict(list)
    for identity, record in there.recorded:
        of_run[identity].append(record)
    for run in there.runs.values():
        if run.finished and (path := keep(results, run, of_run[run.id])):
            yield path


def _keep(results: Path, of: Snapshot) -> Path | None:
    path = _path(results, of.run)
    if not of.timed and not of.answered:
        return None
    before = path.read_bytes() if path.exists() else b""
    data = snapshots.packed(snapshots.joined(_read(path), of) if before else of)
    if data == before:
        return None
    with files.one_line(path.parent, "written"):
        path.parent.mkdir(parents=True, exist_ok=True)
    files.replace_bytes(path, data)
    return path


@uncollected()
def read(results: Path) -> list[Snapshot]:
    """All runs that are kept, by machine and then by when they started.

    Raises UsageError for a file that is not as it was written; a file that is still being written is none yet.
    """
    found = [_read(path) for path in paths(results)]
    return sorted(found, key=lambda of: (of.run.machine.name, of.run.started, of.run.id))


def refusals(
    results: Path, machines: Sequence[Recorded], keeps: Callable[[Run], bool | None] = lambda run: None
) -> Iterator[Refusal]:
    """What is amiss: files that are not as they were written, that say otherwise than the rows of their run or what no
    run has, and files that are not there.

    `keeps` says of a run whether the version that made it keeps runs, None where that is not known.
    """
    found: list[Snapshot] = []
    yield from _read_amiss(results, machines, found)
    if (results / FOLDER).is_dir():  # else nobody said that there is one
        yield from _lost(results, machines, found, keeps)


def _lost(
    results: Path, machines: Iterable[Recorded], kept: Iterable[Snapshot], keeps: Callable[[Run], bool | None]
) -> Iterator[Refusal]:
    """Files of runs whose rows are here. Of a run of an unknown version one is due from the first that is kept on."""
    first: dict[str, str] = {}
    for each in kept:
        name = each.run.machine.name
        first[name] = min(first.get(name, each.run.started), each.run.started)
    for of in machines:
        with_rows = {identity for identity, _ in (*of.rows, *of.measured)}
        for run in (run for run in of.runs.values() if run.finished and run.id in with_rows):
            said = keeps(run)
            is_due = of.machine in first and first[of.machine] <= run.started if said is None else said
            if is_due and not (path := _path(results, run)).exists():
                yield Refusal(str(path), "", f"there is no such file, and rows of its run are there; {ADD}")


def _read_amiss(results: Path, machines: Iterable[Recorded], found: list[Snapshot]) -> Iterator[Refusal]:
    """What is amiss with the files that are there; those that can be read are `found`."""
    rows = {(of.machine, run.id): (of, run) for of in machines for run in of.runs.values() if run.finished}
    for path in paths(results):
        try:
            kept = _read(path)
        except Refused as refused:
            yield refused.refusal
        except UsageError as error:
            yield Refusal(str(path), "", str(error))
        else:
            found.append(kept)
            yield from (Refusal(str(path), "", why) for why in (*ranges.of_run(kept.run), *_odd(kept)))
            if (there := rows.get((kept.run.machine.name, kept.run.id))) and not _agrees(kept, *there):
                yield Refusal(str(path), "", f"it says otherwise than the rows of the run {kept.run.id:.80}")


def _odd(kept: Snapshot) -> Iterator[str]:
    """What no run has: a median without samples or beyond its interval, more time than the run took."""
    longest = ranges.together(kept.run)
    for of in kept.timed:
        where, measured = f"{of.implementation:.80} {of.table_in_words:.120}", of.status == Status.MEASURED
        if measured != (of.median is not None) or measured != (of.rounds > 0):
            yield f"{where} is {of.status:.20}, its median {of.median} of {of.rounds} rounds"
            continue
        for name, low, value, high in (
            ("median", of.low, of.median, of.high),
            ("ratio", of.ratio_low, of.ratio, of.ratio_high),
        ):
            least, most = (value if end is None else end for end in (low, high))
            if value is not None and not 0 < (least or 0) <= value <= (most or 0) < math.inf:
                yield f"{where}: {name} is {value:.5g}, between {low} and {high}"
        if of.median is not None and of.median * of.rounds / 2 > longest:  # half of its samples are longer
            yield f"{where}: {of.rounds} rounds of {of.median:.4g} s are longer than the run, {longest:.4g} s at most"
        if of.baseline == of.implementation and of.ratio is not None and of.ratio != 1:
            yield f"{where}: it is the baseline, and its ratio is {of.ratio:.5g}"


def _agrees(kept: Snapshot, recorded: Recorded, run: Run) -> bool:
    """Whether a run as it is kept holds what its rows say, as far as they are still there."""
    mine = [record for identity, record in (*recorded.rows, *recorded.measured) if identity == run.id]
    return snapshots.agree(kept, snapshots.joined(snapshots.snapshot(run, mine), kept))


def paths(results: Path) -> list[Path]:
    """The files of all runs that are kept."""
    return sorted((results / FOLDER).glob("*/*.gz"))


def _path(results: Path, run: Run) -> Path:
    names = run.machine.name, f"{run.id}.gz"
    if any(Path(name).name != name or name.startswith(".") for name in names):
        raise UsageError(f"{'/'.join(names)!r:.120} cannot be the name of a file of history")
    return results / FOLDER / names[0] / names[1]


def _read(path: Path) -> Snapshot:
    lines = columns.unpacked(path.parent, path.name)
    try:
        of = snapshots.unpacked("\n".join(lines).encode())
        if _path(path.parent.parent.parent, of.run) != path:
            raise ValueError(f"it is the run {of.run.id:.80} of {of.run.machine.name:.80}")
    except (ValueError, TypeError) as error:
        raise Damaged(path, f"this is no run of history ({error})", remedy=REMEDY) from None
    return of
