"""Records ↔ files: the only reader and writer of results/."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from suite.records import EVERY_CASE, Outcome, Run, UsageError
from suite.results import files, rows
from suite.results.files import replace_file as replace_file
from suite.results.rows import BENCHMARK, CONFORMANCE, RUNS

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped, unused-ignore]  # stubs are a package of their own


@dataclass(frozen=True)
class Recorded:
    """What results/ holds of one machine: the newest row of each question, and the runs that the rows came from.

    `runs` are by id, the newest last; `rows` pair a run's id with an outcome and are sorted by what was asked.
    """

    machine: str
    runs: Mapping[str, Run]
    rows: tuple[tuple[str, Outcome], ...]

    @property
    def outcomes(self) -> list[Outcome]:
        return [outcome for _, outcome in self.rows]

    @property
    def run(self) -> Run:
        """The newest run."""
        return list(self.runs.values())[-1]

    @property
    def earlier(self) -> dict[str, Run]:
        """Each implementation that has rows of an older run, with the oldest such run."""
        oldest: dict[str, str] = {}
        age = _ages(self.runs)
        for identity, outcome in self.rows:
            name = outcome.implementation
            oldest[name] = min(identity, oldest.get(name, identity), key=age.__getitem__)
        return {name: self.runs[identity] for name, identity in sorted(oldest.items()) if identity != self.run.id}


class Results:
    """A folder of results, with one folder per machine in it."""

    def __init__(self, path: str | Path = "results") -> None:
        self.path = Path(path)

    def machines(self) -> list[str]:
        """The names of the machines that have results here."""
        return sorted(file.parent.name for file in self.path.glob(f"*/{RUNS}"))

    def read(self, machine: str) -> Recorded:
        """What is recorded of one machine. Raises UsageError for files that this version cannot read."""
        folder = self.path / machine
        try:
            return _newest(machine, *rows.read(folder))
        except rows.UnknownRun:  # or a run was finished while we read one file after the other
            return _newest(machine, *rows.read(folder))

    def open_run(self, run: Run) -> RunWriter:
        """Resume the newest unfinished run that is like `run`, or start `run`.

        Raises UsageError when another process is writing here, or when what is here cannot be read or written.
        """
        name = run.machine.name
        if not name or name.startswith(".") or Path(name).name != name:
            raise UsageError(f"a machine's name is also its folder, which {name!r} cannot be")
        folder = self.path / name
        with files.one_line(folder, "written"):
            folder.mkdir(parents=True, exist_ok=True)
        held, note = files.lock(folder)
        try:
            return RunWriter(folder, run, held, note)
        except BaseException:
            files.unlock(held)
            raise


class RunWriter:
    """The one writer of a machine's folder: rows reach the disk one by one, and a crash costs at most the last.

    `run` is the run that the rows belong to (an older one when `resumed`), `recorded` are the outcomes that it had
    already, `done` are the keys of all it has, and `notes` say what was found amiss and mended.
    """

    def __init__(self, folder: Path, run: Run, held: int | None, note: str = "") -> None:
        self.folder = folder
        self._held = held
        mended = [files.mend(folder / name) for name in (RUNS, CONFORMANCE, BENCHMARK)]
        self.notes = tuple(filter(None, (note, *mended)))
        runs, recorded = rows.read(folder)
        _runs_of(folder / BENCHMARK)
        alike = [old for old in runs.values() if not old.finished and _identity(old) == _identity(run)]
        self.resumed = bool(alike)
        self.run = alike[-1] if alike else replace(run, id=_unused(run.id, runs), finished="", format=rows.FORMAT)
        mine = {outcome.key: outcome for identity, outcome in recorded if identity == self.run.id}  # the last of a key
        self.recorded, self.done = list(mine.values()), set(mine)
        with files.one_line(folder, "written"):
            for stale in folder.glob(".*.jsonl.*.tmp"):  # a process was killed while it replaced a table
                stale.unlink(missing_ok=True)
        file = files.open_to_append(folder / RUNS)
        try:
            files.append(file, folder / RUNS, rows.run_row(self.run))
        finally:
            os.close(file)
        self._file: int | None = files.open_to_append(folder / CONFORMANCE)

    def write(self, outcome: Outcome) -> None:
        """Append one row. Raises UsageError when the disk is full; the rows before it stay."""
        if self._file is None:
            raise ValueError("this run is closed")
        files.append(self._file, self.folder / CONFORMANCE, {"run": self.run.id, **rows.lean(outcome)})
        self.done.add(outcome.key)

    def finish(self, whole: Collection[str] = ()) -> Run:
        """Mark the run as finished, drop the rows that it supersedes, and close.

        An older row goes where this run asked the same (implementation, case, dtype, device). `whole` are the
        implementations that were asked every case in every dtype: all their older rows go, on the devices asked, for
        their cases may not exist any more. Implementations that were not asked keep their rows.
        """
        runs, recorded = rows.read(self.folder)
        devices = {outcome.device for identity, outcome in recorded if identity == self.run.id}
        kept = [
            {"run": identity, **rows.lean(outcome)}
            for identity, outcome in _newest(self.folder.name, runs, recorded).rows
            if identity == self.run.id or outcome.implementation not in whole or outcome.device not in devices
        ]
        replace_file(self.folder / CONFORMANCE, "".join(map(files.row_text, kept)))
        finished = replace(self.run, finished=datetime.now(UTC).isoformat(timespec="seconds"))
        used = {row["run"] for row in kept} | _runs_of(self.folder / BENCHMARK)
        remaining = [old for old in runs.values() if old.id in used and old.id != finished.id]
        replace_file(self.folder / RUNS, "".join(files.row_text(rows.run_row(each)) for each in (*remaining, finished)))
        self.run = finished
        self.close()
        return finished

    def close(self) -> None:
        """Let the next writer in. A run that is closed before it is finished can be resumed."""
        if self._file is not None:
            os.close(self._file)
        files.unlock(self._held)
        self._file = self._held = None

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_outcomes(path: str | Path = "results") -> dict[str, Recorded]:
    """What is recorded of each machine that had a run, by the machine's name."""
    results = Results(path)
    read = (results.read(machine) for machine in results.machines())
    return {recorded.machine: recorded for recorded in read if recorded.runs}


def load(path: str | Path = "results") -> pandas.DataFrame:
    """All outcomes of all machines as a table: a row per question, the columns of its run first.

    Raises UsageError when there is no such folder or a file in it cannot be read.
    """
    import pandas

    if not Path(path).is_dir():
        raise UsageError(f"there is no folder {path}; `attnsuite check` writes results/ where it is started")
    columns = ["machine", "run", "started", "commit", "torch", *(field.name for field in fields(Outcome))]
    found = []
    for recorded in read_outcomes(path).values():
        for identity, outcome in recorded.rows:
            run = recorded.runs[identity]
            origin = (recorded.machine, identity, run.started, run.commit, run.versions.get("torch", ""))
            found.append({**dict(zip(columns, origin, strict=False)), **asdict(outcome)})
    table = pandas.DataFrame(found, columns=columns)
    table["started"] = pandas.to_datetime(table["started"], format="ISO8601", utc=True, errors="coerce")
    return table.astype({"error_ratio": float, "seconds": float})


def _newest(machine: str, runs: Mapping[str, Run], recorded: Iterable[tuple[str, Outcome]]) -> Recorded:
    """Of each question the newest run's row. A row about every case (a missing library) outdates all before it, and
    is outdated by any after it.
    """
    age = _ages(runs)
    newest: dict[tuple[str, ...], tuple[str, Outcome]] = {}
    about: dict[tuple[str, str, bool], int] = {}
    for identity, outcome in sorted(recorded, key=lambda row: age[row[0]]):
        newest[outcome.key] = identity, outcome
        about[outcome.implementation, outcome.device, outcome.case == EVERY_CASE] = age[identity]
    kept = (
        (identity, outcome)
        for identity, outcome in newest.values()
        if age[identity] >= about.get((outcome.implementation, outcome.device, outcome.case != EVERY_CASE), -1)
    )
    return Recorded(machine, runs, tuple(sorted(kept, key=lambda row: row[1].key)))


def _ages(runs: Mapping[str, Run]) -> dict[str, int]:
    return {identity: position for position, identity in enumerate(runs)}


def _identity(run: Run) -> tuple[object, ...]:
    """What must be equal for a run to be resumed. A virtual machine's memory differs a little from boot to boot."""
    return run.suite, dict(run.sources), dict(run.versions), replace(run.machine, memory_bytes=0), run.asked


def _unused(identity: str, runs: Collection[str]) -> str:
    names = (identity, *(f"{identity}-{number}" for number in range(2, len(runs) + 2)))
    return next(name for name in names if name not in runs)


def _runs_of(path: Path) -> set[str]:
    """The runs that the rows of a file belong to."""
    return {str(row.get("run")) for _, row in files.read_rows(path)}
