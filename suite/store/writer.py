"""The one writer of a machine's folder: row by row while a run goes on, whole tables when it ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any

from suite.records import EVERY_CASE, Measurement, Outcome, Run, UsageError
from suite.store import files, rows
from suite.store.recorded import Record, newest
from suite.store.rows import BENCHMARK, CONFORMANCE, RUNS


class RunWriter:
    """The one writer of a machine's folder: rows reach the disk one by one, and a crash costs at most the last.

    `run` is the run that the rows belong to (an older one when `resumed`). `recorded` are the outcomes that it had
    already and `done` the keys of all that it has; `recorded_measurements` and `measured` are the same of measurements.
    `notes` say what was found amiss and mended.
    """

    def __init__(self, folder: Path, run: Run, held: int | None, note: str = "") -> None:
        self.folder = folder
        self._held = held
        self._closed = False
        self._files: dict[str, int] = {}
        self._written: dict[str, Any] = {}
        mended = [files.mend(folder / name) for name in (RUNS, CONFORMANCE, BENCHMARK)]
        self.notes = tuple(filter(None, (note, *mended)))
        runs, outcomes, measurements = rows.read(folder)
        alike = [old for old in runs.values() if not old.finished and _identity(old) == _identity(run)]
        self.resumed = bool(alike)
        self.run = alike[-1] if alike else replace(run, id=_unused(run.id, runs), finished="", format=rows.FORMAT)
        self.recorded, self.done = self._mine(outcomes)
        self.recorded_measurements, self.measured = self._mine(measurements)
        with files.one_line(folder, "written"):
            for stale in folder.glob(".*.jsonl.*.tmp"):  # a process was killed while it replaced a table
                stale.unlink(missing_ok=True)
        file = files.open_to_append(folder / RUNS)
        try:
            files.append(file, folder / RUNS, rows.run_row(self.run))
        finally:
            os.close(file)

    def write(self, record: Outcome | Measurement) -> None:
        """Append one row to the table of its kind.

        Raises UsageError when the disk is full (the rows before it stay), and ValueError for a row that could not be
        read again, which would cost the whole table.
        """
        if self._closed:
            raise ValueError("this run is closed")
        table, parse, keys = (
            (CONFORMANCE, rows.outcome, self.done)
            if isinstance(record, Outcome)
            else (BENCHMARK, rows.measurement, self.measured)
        )
        row = {"run": self.run.id, **rows.lean(record)}
        parse(row)
        if table not in self._files:
            self._files[table] = files.open_to_append(self.folder / table)
            self._written[table] = sha256((self.folder / table).read_bytes())
        self._written[table].update(files.append(self._files[table], self.folder / table, row))
        keys.add(record.key)

    def finish(
        self,
        whole: Collection[str] = (),
        workloads: Mapping[str, Collection[str]] | None = None,
        profile: str = "",
        seconds: Mapping[str, float] | None = None,
    ) -> Run:
        """Mark the run as finished, drop the rows that it supersedes, and close.

        An older row goes where this run asked the same (`key`); a table in which this run has no row stays as it is.
        `whole` are the implementations that were asked every case in every dtype: all their older outcomes go, on the
        devices asked, for their cases may not exist any more. `workloads` are the names of all workloads that
        contracts have, by contract: measurements of others go, but contracts that are not named keep theirs.
        Implementations that were not asked keep their rows. `profile` was timed, and took these `seconds` by activity.
        """
        for table, written in self._written.items():
            self._check(self.folder / table, written.digest())
        runs, outcomes, measurements = rows.read(self.folder)
        devices = {outcome.device for identity, outcome in outcomes if identity == self.run.id}

        def may_exist(identity: str, outcome: Outcome) -> bool:
            return identity == self.run.id or outcome.implementation not in whole or outcome.device not in devices

        def exists(_: str, measurement: Measurement) -> bool:
            known = (workloads or {}).get(measurement.contract)
            return known is None or measurement.workload in (EVERY_CASE, *known)

        kept = {
            *self._compact(CONFORMANCE, runs, outcomes, may_exist),
            *self._compact(BENCHMARK, runs, measurements, exists),
        }
        finished = replace(
            self.run,
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
            facts=replace(self.run.facts, profile=profile, seconds=dict(seconds or {})),
        )
        remaining = [old for old in runs.values() if old.id in kept and old.id != finished.id]
        lines = (files.row_text(rows.run_row(run)) for run in (*remaining, finished))
        files.replace_file(self.folder / RUNS, "".join(lines))
        self.run = finished
        self.close()
        return finished

    def close(self) -> None:
        """Let the next writer in. A run that is closed before it is finished can be resumed."""
        for file in self._files.values():
            os.close(file)
        files.unlock(self._held)
        self._files, self._held, self._closed = {}, None, True

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self, table: Path, digest: bytes) -> None:
        """UsageError where a table is not what was read of it and written to it: there is one writer at a time."""
        with files.one_line(table, "read"):
            if sha256(table.read_bytes()).digest() != digest:
                raise UsageError(f"{table} was changed by something else while this run wrote to it; restore it")

    def _mine(self, recorded: Iterable[tuple[str, Record]]) -> tuple[list[Record], set[tuple[str, ...]]]:
        """This run's records, the last of each key, and their keys."""
        mine: dict[tuple[str, ...], Record] = {
            record.key: record for identity, record in recorded if identity == self.run.id
        }
        return list(mine.values()), set(mine)

    def _compact(
        self,
        table: str,
        runs: Mapping[str, Run],
        recorded: Sequence[tuple[str, Record]],
        stays: Callable[[str, Record], bool],
    ) -> set[str]:
        """Drop the rows that do not stay and, if this run has any, those superseded; the runs of the others."""
        mine = any(identity == self.run.id for identity, _ in recorded)
        kept = [row for row in (newest(runs, recorded) if mine else recorded) if stays(*row)]
        if mine or len(kept) < len(recorded):
            lines = (files.row_text({"run": identity, **rows.lean(record)}) for identity, record in kept)
            files.replace_file(self.folder / table, "".join(lines))
        return {identity for identity, _ in kept}


def _identity(run: Run) -> tuple[object, ...]:
    """What must be equal for a run to be resumed. A virtual machine's memory differs a little from boot to boot."""
    return run.suite, dict(run.sources), dict(run.versions), replace(run.machine, memory_bytes=0), run.asked


def _unused(identity: str, runs: Collection[str]) -> str:
    names = (identity, *(f"{identity}-{number}" for number in range(2, len(runs) + 2)))
    return next(name for name in names if name not in runs)
