"""The one writer of a machine's folder: a journal, row by row, while a run goes on, and whole files when it ends."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from types import TracebackType

from msgspec.structs import replace

from attnsuite.model import EVERY_CASE, SHAPE, Claimed, Learned, Measurement, Operators, Outcome, Run, UsageError
from attnsuite.results.store import contents, files, history, rows, runs, together
from attnsuite.results.store.contents import JOURNAL, AnyRecord, Contents
from attnsuite.results.store.kinds import Record
from attnsuite.results.store.recorded import newest
from attnsuite.results.store.runs import RUNS


class RunWriter:
    """The one writer of a machine's folder: rows reach the disk one by one, and a crash costs at most the last.

    `run` is the run that the rows belong to (an older one when `resumed`). `recorded` are the outcomes that it had
    already and `done` the keys of all that it has; `recorded_measurements` and `measured` are the same of measurements,
    `recorded_learned` and `trained` of what was learned, `recorded_claims` and `examined` of claims.
    `notes` say what was found amiss and mended, and what else there is to know.
    """

    def __init__(self, folder: Path, run: Run, held: int | None, notes: Iterable[str] = ()) -> None:
        self.folder = folder
        self._held = held
        self._closed = False
        self._journal: int | None = None
        together.settle(folder)
        there = contents.read(folder)  # before anything is mended: what is refused stays as it is
        mended = [files.mend(folder / name) for name in (RUNS, JOURNAL)]
        self._written = sha256(together.content(folder, JOURNAL))
        self.notes = tuple(filter(None, (*notes, *mended)))
        alike = [old for old in there.runs.values() if not old.finished and identity(old) == identity(run)]
        self.resumed = bool(alike)
        self.run = alike[-1] if alike else replace(run, id=unused(run.id, there.runs), finished="")
        self.recorded, self.done = self._mine(there.outcomes)
        self.recorded_measurements, self.measured = self._mine(there.measurements)
        self.recorded_learned, self.trained = self._mine(there.learned)
        self.recorded_claims, self.examined = self._mine(there.claimed)
        file = files.open_to_append(folder / RUNS)
        try:
            files.append(file, folder / RUNS, runs.open_row(self.run))
        finally:
            os.close(file)

    def write(self, record: AnyRecord) -> None:
        """Append one row to the journal. Where this run asked the same before, the row says that it takes its place.

        Raises UsageError when the disk is full (the rows before it stay), and ValueError for a row that could not be
        read again, which would cost the whole journal.
        """
        if self._closed:
            raise ValueError("this run is closed")
        keys = self._keys(record)
        again = {contents.AGAIN: True} if record.key in keys else {}
        row = {"run": self.run.id, **rows.lean(record)}
        contents.journal_row(row)
        path = self.folder / JOURNAL
        if self._journal is None:
            self._check_journal()
            self._journal = files.open_to_append(path)
        self._written.update(files.append(self._journal, path, {**row, **again}))
        keys.add(record.key)

    def finish(
        self,
        whole: Collection[str] = (),
        workloads: Mapping[str, Collection[str]] | None = None,
        profile: str = "",
        seconds: Mapping[str, float] | None = None,
        claims: Collection[str] | None = None,
        operators: Mapping[str, Operators] | None = None,
        gaps: Mapping[str, Mapping[str, str]] | None = None,
    ) -> Run:
        """Mark the run as finished, drop the rows that it supersedes, put its own in their places, and close.

        An older row goes where this run asked the same (`key`); of a kind of which this run has no row, all stay.
        `whole` are the implementations that were asked every case in every dtype: all their older outcomes go, on the
        devices asked, for their cases may not exist any more. `workloads` are the names of all workloads that
        contracts have, by contract: measurements of others go, but contracts that are not named keep theirs.
        Implementations that were not asked keep their rows; where `claims` are given, rows of others go. `profile` was
        timed, and took these `seconds` by activity. `operators` are those that implementations were seen to run, `gaps`
        what their imports have told that they lack. History keeps the run as it is now.
        """
        self._check_journal()
        there = contents.read(self.folder)
        devices = {outcome.device for identity, outcome in there.outcomes if identity == self.run.id}

        def may_exist(identity: str, outcome: Outcome) -> bool:
            return identity == self.run.id or outcome.implementation not in whole or outcome.device not in devices

        def exists(of: Measurement) -> bool:
            known = (workloads or {}).get(of.contract)
            return known is None or of.workload.startswith(SHAPE) or of.workload in (EVERY_CASE, *known)

        told = {**self.run.facts.gaps, **{name: dict(each) for name, each in (gaps or {}).items() if each}}
        spent, ran = dict(seconds or {}), dict(operators or {})
        facts = replace(self.run.facts, profile=profile, seconds=spent, operators=ran, gaps=told)
        finished = replace(self.run, finished=datetime.now(UTC).isoformat(timespec="seconds"), facts=facts)
        others = {identity: old for identity, old in there.runs.items() if identity != finished.id}
        kept = Contents(
            {**others, finished.id: finished},
            [row for row in self._newest(there.runs, there.outcomes) if may_exist(*row)],
            [row for row in self._newest(there.runs, there.measurements) if exists(row[1])],
            list(self._newest(there.runs, there.learned)),
            [row for row in self._newest(there.runs, there.claimed) if claims is None or row[1].claim in claims],
        )
        mine = (record for identity, record in there.recorded if identity == finished.id)
        history.keep(self.folder.parent, finished, mine)  # first: a crash here leaves a run that is resumed
        together.replace_together(self.folder, contents.written(kept, finished.id))
        self.run = finished
        self.close()
        return finished

    def close(self) -> None:
        """Let the next writer in. A run that is closed before it is finished can be resumed."""
        if self._journal is not None:
            os.close(self._journal)
        files.unlock(self._held)
        self._journal, self._held, self._closed = None, None, True

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _keys(self, record: AnyRecord) -> set[tuple[str, ...]]:
        kinds = {Outcome: self.done, Measurement: self.measured, Learned: self.trained, Claimed: self.examined}
        return kinds[type(record)]

    def _check_journal(self) -> None:
        """UsageError where the journal is not what was read of it and written to it: there is one writer at a time."""
        if sha256(together.content(self.folder, JOURNAL)).digest() != self._written.digest():
            raise UsageError(f"{self.folder / JOURNAL} was changed by something else during this run; restore it")

    def _mine(self, recorded: Iterable[tuple[str, Record]]) -> tuple[list[Record], set[tuple[str, ...]]]:
        """This run's records, the last of each key, and their keys."""
        mine: dict[tuple[str, ...], Record] = {
            record.key: record for identity, record in recorded if identity == self.run.id
        }
        return list(mine.values()), set(mine)

    def _newest(self, of: Mapping[str, Run], recorded: Collection[tuple[str, Record]]) -> Iterable[tuple[str, Record]]:
        """The rows without those superseded, or all where this run has none."""
        return newest(of, recorded) if any(identity == self.run.id for identity, _ in recorded) else recorded


def identity(run: Run) -> tuple[object, ...]:
    """What must be equal for a run to be resumed. A virtual machine's memory differs a little from boot to boot."""
    machine = replace(run.machine, memory_bytes=0)
    return run.suite, dict(run.sources), dict(run.versions), machine, run.asked, run.shard


def unused(identity: str, taken: Collection[str]) -> str:
    """The id of a run, with a number behind it where another run has it."""
    names = (identity, *(f"{identity}-{number}" for number in range(2, len(taken) + 2)))
    return next(name for name in names if name not in taken)
