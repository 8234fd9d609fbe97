"""Records ↔ files: the only reader and writer of results/."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import fields, replace

from attnsuite.model import Claimed, Learned, Machine, Measurement, Outcome, Run, UsageError
from attnsuite.model.statistics import Interval, interval
from attnsuite.model.uncollected import uncollected
from attnsuite.results.store import contents, files
from attnsuite.results.store.files import replace_bytes as replace_bytes
from attnsuite.results.store.files import replace_file as replace_file
from attnsuite.results.store.place import place
from attnsuite.results.store.recorded import Recorded as Recorded
from attnsuite.results.store.verification import Verified as Verified
from attnsuite.results.store.verification import verify as verify
from attnsuite.results.store.writer import RunWriter as RunWriter

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped, unused-ignore]  # stubs are a package of their own

KINDS: Mapping[str, type[Outcome | Measurement | Learned | Claimed]] = {
    "conformance": Outcome,
    "benchmark": Measurement,
    "learning": Learned,
    "claims": Claimed,
}


class Results:
    """A folder of results, with one folder per machine in it."""

    def __init__(self, path: str | Path = "results") -> None:
        self.path = Path(path)

    def machines(self) -> list[str]:
        """The names of the machines that have results here."""
        return sorted({file.parent.name for sign in contents.SIGNS for file in self.path.glob(f"*/{sign}")})

    def of(self, machine: Machine) -> Machine:
        """The machine, called like its folder here. Another of the same model may have the folder of its own name."""
        return place(self.path, machine)[0]

    @uncollected()
    def read(self, machine: str, of: Callable[[Run], bool] = lambda run: True) -> Recorded:
        """What is recorded of one machine, in the runs that are meant. Raises UsageError for files that are not as this
        version wrote them.
        """
        return contents.read(self.path / machine).of_runs(of).recorded_of(machine)

    @uncollected()
    def open_run(self, run: Run) -> RunWriter:
        """Resume the newest unfinished run that is like `run`, or start `run`, in the folder of its machine.

        Raises UsageError when another process is writing there, or when what is there cannot be read or written.
        """
        name = run.machine.name
        if not name or name.startswith(".") or Path(name).name != name:
            raise UsageError(f"a machine's name is also its folder, which {name!r} cannot be")
        contents.check_layout(self.path)  # before the minutes that a run takes
        machine, elsewhere = place(self.path, run.machine)
        folder = self.path / machine.name
        with files.one_line(folder, "written"):
            folder.mkdir(parents=True, exist_ok=True)
        held, unlocked = files.lock(folder)
        try:
            return RunWriter(folder, replace(run, machine=machine), held, (elsewhere, unlocked))
        except BaseException:
            files.unlock(held)
            raise


def read_outcomes(path: str | Path = "results") -> dict[str, Recorded]:
    """What is recorded of each machine that had a run, by the machine's name."""
    results = Results(path)
    read = (results.read(machine) for machine in results.machines())
    return {recorded.machine: recorded for recorded in read if recorded.runs}


def load(path: str | Path = "results", kind: str = "conformance") -> pandas.DataFrame:
    """All outcomes of all machines as a table, all measurements (`kind="benchmark"`), all that was learned
    (`kind="learning"`), or all claims (`kind="claims"`): a row per question, the columns of its run first.

    Measurements have their samples in `seconds` as tuples, the median of these and the interval in which the true one
    lies in `median`, `low` and `high`, and in `peak` the memory of one call, in bytes; NaN where there is none.

    Raises UsageError for another kind, when there is no such folder, or when a file in it cannot be read.
    """
    import pandas

    if kind not in KINDS:
        raise UsageError(f"there are no results of the kind {kind!r:.80}; there are {', '.join(KINDS)}")
    if not Path(path).is_dir():
        raise UsageError(f"there is no folder {path}; `attnsuite run` writes results/ where it is started")
    of, more = KINDS[kind], ("median", "low", "high", "peak") if kind == "benchmark" else ()
    columns = ["machine", "run", "started", "commit", "torch", *(field.name for field in fields(of)), *more]
    table = pandas.DataFrame([dict(zip(columns, row, strict=True)) for row in _rows(path, kind)], columns=columns)
    table["started"] = pandas.to_datetime(table["started"], format="ISO8601", utc=True, errors="coerce")
    numbers = [
        name
        for name in ("error_ratio", "own_clock", "first_call", "warm_up", "value", "low", "high")
        if name in columns
    ]
    numbers += ["seconds"] * (kind != "benchmark")
    return table.astype(dict.fromkeys((*numbers, *more), float))


def _rows(path: str | Path, kind: str) -> Iterator[tuple[Any, ...]]:
    for recorded in read_outcomes(path).values():
        for identity, record in _of_kind(recorded, kind):
            run = recorded.runs[identity]
            origin = recorded.machine, identity, run.started, run.commit, run.versions.get("torch", "")
            values = (getattr(record, field.name) for field in fields(record))
            yield (*origin, *values, *(_summary(record) if isinstance(record, Measurement) else ()))


def _of_kind(recorded: Recorded, kind: str) -> Iterable[tuple[str, Outcome | Measurement | Learned | Claimed]]:
    by_kind: Mapping[str, Iterable[tuple[str, Outcome | Measurement | Learned | Claimed]]] = {
        "conformance": recorded.rows,
        "benchmark": recorded.measured,
        "learning": recorded.trained,
        "claims": recorded.examined,
    }
    return by_kind[kind]


def _summary(measurement: Measurement) -> tuple[float | None, ...]:
    of = interval(measurement.seconds) if measurement.seconds else Interval(*[math.nan] * 3)
    return of.median, of.low, of.high, measurement.peak
