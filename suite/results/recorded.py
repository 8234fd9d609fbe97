"""The runs of a machine as one record: the newest row of each test, workload, training and claim."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import structs

from attnsuite.model import (
    EVERY_CASE,
    RESULTS,
    SHAPE,
    ClaimResult,
    Measurement,
    Outcome,
    Run,
    TrainingRow,
    UsageError,
)
from attnsuite.model.garbage_collection import gc_paused
from attnsuite.model.statistics import Interval, interval
from attnsuite.results.format import KINDS, RUN, AnyRow, DamagedFile, altered, read_rows, read_run

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped, unused-ignore]  # stubs are a package of their own

Row = TypeVar("Row", Outcome, Measurement, TrainingRow, ClaimResult)
Placed = tuple[str, Row]
"""A row with the id of its run."""
TABLES = {"conformance": "outcomes", "benchmark": "measurements", "learning": "trainings", "claims": "claims"}
"""The kinds of `load`, and their files."""


@dataclass(frozen=True)
class MachineRecord:
    """The record of one machine: the newest row of each test, and the runs of the machine.

    `runs` are by id, the newest last. `rows` pair a run's id with an outcome, `measured` with a measurement, `trained`
    with a training, `examined` with a claim, each sorted by key.
    """

    machine: str
    runs: Mapping[str, Run]
    rows: tuple[tuple[str, Outcome], ...]
    measured: tuple[tuple[str, Measurement], ...] = ()
    trained: tuple[tuple[str, TrainingRow], ...] = ()
    examined: tuple[tuple[str, ClaimResult], ...] = ()

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcomes, without their runs."""
        return [outcome for _, outcome in self.rows]

    @property
    def measurements(self) -> list[Measurement]:
        """The measurements, without their runs."""
        return [measurement for _, measurement in self.measured]

    @property
    def learned(self) -> list[TrainingRow]:
        """The trainings, without their runs."""
        return [learned for _, learned in self.trained]

    @property
    def claimed(self) -> list[ClaimResult]:
        """The results of claims, without their runs."""
        return [claimed for _, claimed in self.examined]

    @property
    def run(self) -> Run:
        """The newest run."""
        return list(self.runs.values())[-1]

    def runs_of(self, identities: Iterable[str]) -> list[Run]:
        """The runs of these ids, the newest last."""
        wanted = set(identities)
        return [run for identity, run in self.runs.items() if identity in wanted]


def machines(results: Path) -> list[str]:
    """The names of the machines that have runs in a folder of results."""
    return sorted({path.parent.parent.name for path in results.glob(f"*/*/{RUN}")})


def runs_of(results: Path, machine: str) -> dict[Path, Run]:
    """The runs of a machine by their folders, the oldest first."""
    runs = [(path.parent, read_run(path.parent)) for path in (results / machine).glob(f"*/{RUN}")]
    return dict(sorted(runs, key=lambda pair: (pair[1].finished or pair[1].started, pair[1].id)))


@gc_paused()
def read_machine(results: Path, machine: str, wanted: Callable[[Run], bool] = lambda run: True) -> MachineRecord:
    """The record of one machine from the `wanted` runs. Raises UsageError for files that cannot be read."""
    folders = {folder: run for folder, run in runs_of(results, machine).items() if wanted(run)}
    runs = {run.id: run for run in folders.values()}
    rows: dict[str, list[tuple[str, Any]]] = {kind: [] for kind in KINDS}
    for folder, run in folders.items():
        for kind in KINDS:
            rows[kind] += [(run.id, row) for row in read_rows(folder, kind)]
        if refusals := altered(folder, run):
            raise DamagedFile(Path(refusals[0].path), refusals[0].why)
    outcomes, measurements, trainings, claims = (newest(runs, rows[kind]) for kind in TABLES.values())
    return MachineRecord(machine, runs, outcomes, measurements, trainings, claims)


def read(results: Path = RESULTS) -> dict[str, MachineRecord]:
    """The records of all machines that have runs, by name."""
    recorded = (read_machine(results, machine) for machine in machines(results))
    return {record.machine: record for record in recorded if record.runs}


def newest(runs: Mapping[str, Run], recorded: Iterable[Placed[Row]]) -> tuple[Placed[Row], ...]:
    """The newest row of each key, sorted by key, without rows of tests, workloads and claims that no longer exist.

    A row about all cases or workloads (a missing library) replaces all older rows of its implementation and device, and
    any newer row replaces it.
    """
    age = {identity: position for position, identity in enumerate(runs)}
    latest: dict[tuple[str, ...], Placed[Row]] = {}
    about: dict[tuple[str, str, bool], int] = {}
    for identity, row in sorted(recorded, key=lambda pair: age[pair[0]]):
        latest[row.key] = identity, row
        about[row.implementation, row.device, is_about_all(row)] = age[identity]
    exists = _existing(runs, age, latest.values())
    current = (
        (identity, row)
        for identity, row in latest.values()
        if age[identity] >= about.get((row.implementation, row.device, not is_about_all(row)), -1)
        and exists(identity, row)
    )
    return tuple(sorted(current, key=lambda pair: pair[1].key))


def _existing(
    runs: Mapping[str, Run], age: Mapping[str, int], latest: Iterable[Placed[Any]]
) -> Callable[[str, AnyRow], bool]:
    """A filter of rows: whether the test, workload or claim of a row still exists, according to the newest runs."""
    whole = {(run.id, name): oldest for run, oldest in _complete(runs, age) for name in run.facts.whole}
    tested: dict[tuple[str, str], int] = {}
    for identity, row in latest:
        if isinstance(row, Outcome) and (oldest := whole.get((identity, row.implementation))) is not None:
            tested[row.implementation, row.device] = max(oldest, tested.get((row.implementation, row.device), -1))
    workloads = {name: (age[run.id], noted) for run in runs.values() for name, noted in run.facts.workloads.items()}
    claims = next(((age[run.id], run.facts.claims) for run in reversed([*runs.values()]) if run.facts.claims), (-1, ()))

    def exists(identity: str, row: AnyRow) -> bool:
        match row:
            case Outcome():
                return age[identity] >= tested.get((row.implementation, row.device), -1)
            case Measurement():
                since, noted = workloads.get(row.contract, (-1, {}))
                return age[identity] >= since or row.workload.startswith(SHAPE) or row.workload in (EVERY_CASE, *noted)
            case ClaimResult():
                return age[identity] >= claims[0] or row.claim in claims[1]
        return True

    return exists


def _complete(runs: Mapping[str, Run], age: Mapping[str, int]) -> Iterator[tuple[Run, int]]:
    """The finished runs of complete requests (no shard is missing), each with the age of its oldest shard."""
    shards: dict[object, dict[str, int]] = {}
    for run in runs.values():
        if run.finished and run.shard:
            shards.setdefault(request_of(run), {})[run.shard] = age[run.id]
    for run in runs.values():
        present = shards.get(request_of(run), {}) if run.shard else {}
        if run.finished and (not run.shard or len(present) == run.divided):
            yield run, min(present.values(), default=age[run.id])


def request_of(run: Run) -> tuple[object, ...]:
    """The key that the shards of one request share."""
    return run.request, run.divided, run.suite, tuple(sorted(run.sources.items())), tuple(sorted(run.versions.items()))


def is_about_all(row: AnyRow) -> bool:
    """Whether a row is about all cases or workloads: the library is missing, or the import raised."""
    name = row.case if isinstance(row, Outcome) else row.workload if isinstance(row, Measurement) else ""
    return name == EVERY_CASE


def load(path: str | Path = RESULTS, kind: str = "conformance") -> pandas.DataFrame:
    """Load the current outcomes of all machines as a DataFrame: a row per test, the columns of its run first.

    `kind` is "conformance" (the default), "benchmark" for measurements, "learning" for trainings or "claims".
    Measurements have their samples in `seconds` (tuples), their median with its 99 % interval in `median`, `low` and
    `high` (seconds), and the memory of one call in `peak` (bytes). Missing numbers are NaN.

    Raises UsageError for an unknown kind, for a missing folder, and for a file that cannot be read.

    >>> load("there/is/none")
    Traceback (most recent call last):
    attnsuite.model.words.UsageError: no folder 'there/is/none'; ...
    """
    import pandas

    if kind not in TABLES:
        raise UsageError(f"unknown kind of results {kind!r:.80}; valid kinds: {', '.join(TABLES)}")
    if not Path(path).is_dir():
        raise UsageError(f"no folder {str(path)!r}; `attnsuite run` writes results/ into the current folder")
    row_type = KINDS[TABLES[kind]]
    more = ("median", "low", "high", "peak") if kind == "benchmark" else ()
    names = [field.name for field in structs.fields(row_type)]
    columns = ["machine", "run", "started", "commit", "torch", *names, *more]
    table = pandas.DataFrame(list(_lines(Path(path), kind)), columns=columns)
    table["started"] = pandas.to_datetime(table["started"], format="ISO8601", utc=True, errors="coerce")
    numbers = [field.name for field in structs.fields(row_type) if type(None) in getattr(field.type, "__args__", ())]
    return table.astype(dict.fromkeys((*numbers, *more), float))


def _lines(path: Path, kind: str) -> Iterator[tuple[Any, ...]]:
    for recorded in read(path).values():
        placed = dict(zip(TABLES, (recorded.rows, recorded.measured, recorded.trained, recorded.examined), strict=True))
        for identity, row in placed[kind]:
            run = recorded.runs[identity]
            origin = recorded.machine, identity, run.started, run.commit, run.versions.get("torch", "")
            yield (*origin, *structs.astuple(row), *(_summary(row) if isinstance(row, Measurement) else ()))


def _summary(measurement: Measurement) -> tuple[float | None, ...]:
    median = interval(measurement.seconds) if measurement.seconds else Interval(*[math.nan] * 3)
    return median.median, median.low, median.high, measurement.peak
