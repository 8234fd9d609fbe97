"""All that a machine's folder holds ↔ its files: finished runs, which say how many rows are due, and the journal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from suite.records import Learned, Measurement, Outcome, Run, UsageError
from suite.store import facts, rows, runs, table, together
from suite.store.files import Damaged, Row, encoded, parsed_rows, row_text
from suite.store.kinds import LEARNED, MEASUREMENTS, OUTCOMES
from suite.store.runs import RUNS

JOURNAL = "journal.jsonl"
"""The rows of runs that are not finished, one by one as they came, each with the id of its run."""
REMEDY = "restore the file, or delete that line"
"""What to do about a row of the journal that is none: the others can be used without it."""
SIGNS = (RUNS, JOURNAL, OUTCOMES.file, MEASUREMENTS.file, LEARNED.file)
"""A folder with any of these files is a machine's."""
AnyRecord = Outcome | Measurement | Learned


@dataclass(frozen=True)
class Contents:
    """What a folder holds. The runs are by id, the one whose row was written last at the end."""

    runs: dict[str, Run]
    outcomes: list[tuple[str, Outcome]]
    measurements: list[tuple[str, Measurement]]
    learned: list[tuple[str, Learned]] = field(default_factory=list)


def check_layout(results: Path) -> None:
    """Raises UsageError, which names the command that helps, where any folder has the layout of an earlier version."""
    for path in results.glob(f"*/{RUNS}"):
        for _, row in parsed_rows(path, together.content(path.parent, RUNS), appended=True):
            runs.refuse_former(path.parent, row)


def read(folder: Path) -> Contents:
    """What a machine's folder holds. Raises UsageError for what is not as it was written, or not by this attnsuite."""
    try:
        return _read(folder)
    except UsageError:  # or a run was finished while one file was read after the other
        return _read(folder)


def written(of: Contents, staying: str = "") -> dict[str, bytes]:
    """The contents of all files of a folder that holds this: finished runs in order, the others in the journal.

    Runs without rows are left out, but for the one that is `staying`.
    """
    with_rows = {identity for identity, _ in (*of.outcomes, *of.measurements, *of.learned)} | {staying}
    kept = {identity: run for identity, run in of.runs.items() if identity in with_rows}
    finished = [identity for identity, run in kept.items() if run.finished]
    by_file: dict[str, bytes] = {}
    held: dict[runs.Block, runs.Counted] = {}
    for of_kind, held_of in (
        table.written(OUTCOMES, finished, [row for row in of.outcomes if row[0] in finished]),
        table.written(MEASUREMENTS, finished, [row for row in of.measurements if row[0] in finished]),
        table.written(LEARNED, finished, [row for row in of.learned if row[0] in finished]),
    ):
        by_file |= of_kind
        held |= held_of
    recorded: tuple[tuple[str, AnyRecord], ...] = (*of.outcomes, *of.measurements, *of.learned)
    journal = ({"run": identity, **rows.lean(record)} for identity, record in recorded if identity not in finished)
    of_runs = (runs.finished_row(run, held) if run.finished else runs.open_row(run) for run in kept.values())
    return {
        **by_file,
        JOURNAL: encoded("".join(map(row_text, journal))),
        RUNS: encoded("".join(map(row_text, of_runs))),
        facts.FACTS: encoded(facts.written(dict(facts.shared(kept[name].facts) for name in finished))),
    }


def _read(folder: Path) -> Contents:
    journal = together.content(folder, JOURNAL)  # before the runs: a writer writes its run's row first
    noted = facts.read(folder / facts.FACTS, together.content(folder, facts.FACTS))
    found, held = runs.read(folder / RUNS, together.content(folder, RUNS), noted)
    outcomes = table.read(OUTCOMES, folder, held)
    measurements = table.read(MEASUREMENTS, folder, held)
    learned = table.read(LEARNED, folder, held)
    for identity, record in _journal(folder / JOURNAL, journal, found):
        if isinstance(record, Outcome):
            outcomes.append((identity, record))
        elif isinstance(record, Measurement):
            measurements.append((identity, record))
        else:
            learned.append((identity, record))
    return Contents(found, outcomes, measurements, learned)


def _journal(path: Path, data: bytes, known: Mapping[str, Run]) -> Iterator[tuple[str, AnyRecord]]:
    """The rows of the journal. Raises UsageError, with its place, for one that is none or whose run is not known."""
    for number, row in parsed_rows(path, data, appended=True, remedy=REMEDY):
        try:
            identity, record = journal_row(row)
        except (ValueError, TypeError) as error:
            raise Damaged(path, str(error), number, REMEDY) from None
        if identity not in known:
            raise Damaged(path, f"{RUNS} has no run {identity!r:.80}", number, REMEDY)
        if known[identity].finished:
            raise Damaged(path, f"the run {identity!r:.80} is finished, so this row is not its own", number, REMEDY)
        yield identity, record


def journal_row(row: Row) -> tuple[str, AnyRecord]:
    """The run's id and the record that a row of the journal holds. Raises ValueError for what is no such row."""
    if "task" in row:
        return rows.learned(row)
    return rows.measurement(row) if "workload" in row else rows.outcome(row)
