"""All that a machine's folder holds ↔ its files: finished runs, which say how many rows are due, and the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from attnsuite.model import Claimed, Learned, Measurement, Outcome, Refusal, Run, UsageError
from attnsuite.results.store import facts, rows, runs, table, together
from attnsuite.results.store.files import Amiss, Row, encoded, parsed_rows, raised, row_text
from attnsuite.results.store.kinds import CLAIMED, LEARNED, MEASUREMENTS, OUTCOMES, Kind
from attnsuite.results.store.recorded import Recorded, newest
from attnsuite.results.store.runs import RUNS

JOURNAL = "journal.jsonl"
"""The rows of runs that are not finished, one by one as they came, each with the id of its run."""
REMEDY = "restore the file, or delete that line"
"""What to do about a row of the journal that is none: the others can be used without it."""
AGAIN = "again"
"""What a row of the journal has beside the record's fields, where it takes the place of one before it."""
SIGNS = (RUNS, JOURNAL, OUTCOMES.file, MEASUREMENTS.file, LEARNED.file, CLAIMED.file)
"""A folder with any of these files is a machine's."""
AnyRecord = Outcome | Measurement | Learned | Claimed


class Placed(NamedTuple):
    """One record, its run's id, and where its row stands."""

    file: str
    line: int
    run: str
    record: AnyRecord


@dataclass(frozen=True)
class Contents:
    """What a folder holds. The runs are by id, the one whose row was written last at the end."""

    runs: dict[str, Run]
    outcomes: list[tuple[str, Outcome]]
    measurements: list[tuple[str, Measurement]]
    learned: list[tuple[str, Learned]] = field(default_factory=list)
    claimed: list[tuple[str, Claimed]] = field(default_factory=list)

    @property
    def recorded(self) -> list[tuple[str, AnyRecord]]:
        """The records of all kinds, with their run's id."""
        return [*self.outcomes, *self.measurements, *self.learned, *self.claimed]

    def recorded_of(self, machine: str) -> Recorded:
        """Of each question the newest row."""
        outcomes, measurements = newest(self.runs, self.outcomes), newest(self.runs, self.measurements)
        learned, claimed = newest(self.runs, self.learned), newest(self.runs, self.claimed)
        return Recorded(machine, self.runs, outcomes, measurements, learned, claimed)

    def of_runs(self, meant: Callable[[Run], bool]) -> Contents:
        """What is of the runs that are meant."""
        runs = {identity: run for identity, run in self.runs.items() if meant(run)}
        found = Contents(runs, [], [])
        for identity, record in self.recorded:
            if identity in runs:
                found.add(identity, record)
        return found

    def add(self, identity: str, record: AnyRecord) -> None:
        """One record more of this run."""
        match record:
            case Outcome():
                self.outcomes.append((identity, record))
            case Measurement():
                self.measurements.append((identity, record))
            case Learned():
                self.learned.append((identity, record))
            case Claimed():
                self.claimed.append((identity, record))


def check_layout(results: Path) -> None:
    """Raises UsageError, which names the command that helps, where any folder has the layout of an earlier version."""
    for path in results.glob(f"*/{RUNS}"):
        for _, row in parsed_rows(path, together.content(path.parent, RUNS), appended=True):
            runs.refuse_former(path.parent, row)


def read(folder: Path) -> Contents:
    """What a machine's folder holds. Raises UsageError for what is not as it was written, or not by this attnsuite."""
    try:
        return _read(folder, raised)[0]
    except UsageError:  # or a run was finished while one file was read after the other
        return _read(folder, raised)[0]


def examined(folder: Path) -> tuple[Contents, list[Placed], list[Refusal]]:
    """What can be read of a machine's folder, where each record stands, and all that is amiss."""
    there = _examined(folder)
    return _examined(folder) if there[2] else there  # a run may be finished while one file is read after the other


def _examined(folder: Path) -> tuple[Contents, list[Placed], list[Refusal]]:
    refusals: list[Refusal] = []
    try:
        there, placed = _read(folder, lambda refused: refusals.append(refused.refusal))
    except UsageError as error:  # what no row is to blame for: a former layout, a file that cannot be opened
        return Contents({}, [], []), [], [*refusals, Refusal(str(folder), "", str(error))]
    return there, placed, refusals


def written(of: Contents, staying: str = "") -> dict[str, bytes]:
    """The contents of all files of a folder that holds this: finished runs in order, the others in the journal.

    Runs without rows are left out, but for the one that is `staying`, and shards: nothing may fall into one.
    """
    shards = {question_of(run): identity for identity, run in of.runs.items() if run.shard}
    with_rows = {identity for identity, _ in of.recorded} | {staying, *shards.values()}
    kept = {identity: run for identity, run in of.runs.items() if identity in with_rows}
    finished = [identity for identity, run in kept.items() if run.finished]
    by_file: dict[str, bytes] = {}
    held: dict[runs.Block, runs.Counted] = {}
    for of_kind, held_of in (
        table.written(OUTCOMES, finished, [row for row in of.outcomes if row[0] in finished]),
        table.written(MEASUREMENTS, finished, [row for row in of.measurements if row[0] in finished]),
        table.written(LEARNED, finished, [row for row in of.learned if row[0] in finished]),
        table.written(CLAIMED, finished, [row for row in of.claimed if row[0] in finished]),
    ):
        by_file |= of_kind
        held |= held_of
    journal = ({"run": identity, **rows.lean(record)} for identity, record in of.recorded if identity not in finished)
    of_runs = (runs.finished_row(run, held) if run.finished else runs.open_row(run) for run in kept.values())
    return {
        **by_file,
        JOURNAL: encoded("".join(map(row_text, journal))),
        RUNS: encoded("".join(map(row_text, of_runs))),
        facts.FACTS: encoded(facts.written(dict(facts.shared(kept[name].facts) for name in finished))),
    }


def question_of(run: Run) -> tuple[str, ...]:
    """What a later run of a shard asks as well, where it takes the place of this one in a folder."""
    return run.asked, run.shard, *sorted(run.sources)


def _read(folder: Path, amiss: Amiss) -> tuple[Contents, list[Placed]]:
    journal = together.content(folder, JOURNAL)  # before the runs: a writer writes its run's row first
    noted = facts.read(folder / facts.FACTS, together.content(folder, facts.FACTS), amiss)
    found, held = runs.read(folder / RUNS, together.content(folder, RUNS), noted, amiss)
    there = Contents(found, [], [])
    placed: list[Placed] = []
    for kind in (OUTCOMES, MEASUREMENTS, LEARNED, CLAIMED):
        placed += [Placed(kind.file, *each) for each in _of_kind(kind, folder, held, amiss)]
    placed += [Placed(JOURNAL, *each) for each in _journal(folder / JOURNAL, journal, found, amiss)]
    for each in placed:
        there.add(each.run, each.record)
    return there, placed


def _of_kind(kind: Kind[Any], folder: Path, held: runs.Held, amiss: Amiss) -> Iterable[table.Found[Any]]:
    """The records of a kind whose runs are known; of others it is amiss already that their run is."""
    known = {block.run for block in held}
    return (each for each in table.read(kind, folder, held, amiss) if each.run in known)


def _journal(path: Path, data: bytes, known: Mapping[str, Run], amiss: Amiss) -> Iterable[table.Found[Any]]:
    """The rows of the journal. One that is none, or whose run is not known, is amiss.

    A question that was asked again says so in its row, and its answer takes the place of the one before.
    """
    found: dict[tuple[str, ...], table.Found[Any]] = {}
    once: table.Once[Any] = table.Once()
    for number, row in parsed_rows(path, data, appended=True, remedy=REMEDY, amiss=amiss):
        with table.reporting(path, amiss, number, REMEDY):
            again = row.get(AGAIN) is True
            identity, record = journal_row({name: value for name, value in row.items() if name != AGAIN})
            if identity not in known:
                raise ValueError(f"{RUNS} has no run {identity!r:.80}")
            if known[identity].finished:
                raise ValueError(f"the run {identity!r:.80} is finished, so this row is not its own")
            once.add(number, identity, record, again)
            found[type(record).__name__, identity, *record.key] = table.Found(number, identity, record)
    return found.values()


def journal_row(row: Row) -> tuple[str, AnyRecord]:
    """The run's id and the record that a row of the journal holds. Raises ValueError for what is no such row."""
    if "task" in row:
        return rows.learned(row)
    if "claim" in row:
        return rows.claimed(row)
    return rows.measurement(row) if "workload" in row else rows.outcome(row)
