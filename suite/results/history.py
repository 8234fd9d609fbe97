"""The history of times, memory and failures: results/history.csv.

Each measurement is a line: one per machine, run, implementation, workload, dtype, device, number of threads, direction
and cache. The failures of each implementation are a line per machine, run and device.

The file keeps the measurements of runs whose folders are removed later. Steps are computed from it and from the stored
runs.
"""

import csv
import io
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from msgspec import structs

from attnsuite.model import EVERY_CASE, FAILURES, Measurement, Outcome, Run, UsageError
from attnsuite.model.files import file_errors, read_text, replace_file
from attnsuite.model.garbage_collection import gc_paused
from attnsuite.model.rows import Amount, Count, Name, Row, Text, lean, table_in_words
from attnsuite.model.statistics import interval
from attnsuite.results.format import DamagedFile, read_rows
from attnsuite.results.recorded import machines, runs_of
from attnsuite.results.steps import MIN_RUNS, steps_of

FILE = "history.csv"
LEAST_MEMORY = 2**20
"""Bytes. Smaller peaks have no series: they are a few pages, and vary with the layout of the process's memory."""
VERDICTS = {"ratio": ("slower", "faster"), "time": ("slower", "faster"), "memory": ("more", "less")}
"""The words for a step up and a step down of each quantity."""


class Line(Row, frozen=True):
    """A line of history.csv: a measurement in short or, without a workload, the failures of an implementation."""

    machine: Name
    run: Name
    started: Name
    """When the run started (UTC, ISO 8601)."""
    commit: Text
    torch: Text
    """The version of PyTorch."""
    implementation: Name
    contract: Name
    source: Text = ""
    """A hash of the implementation's file."""
    workload: Text = ""
    dtype: Text = ""
    device: Text = ""
    threads: Count = 0
    direction: Text = ""
    cache: Text = ""
    status: Text = ""
    rounds: Count = 0
    """Number of samples."""
    median: Amount | None = None
    """Seconds of a call, with the 99 % interval from `low` to `high`."""
    low: Amount | None = None
    high: Amount | None = None
    baseline: Text = ""
    """The implementation in the same timed table to which `ratio` refers."""
    ratio: Amount | None = None
    """Time as a multiple of the baseline's: the median of the ratios within rounds, with its interval."""
    ratio_low: Amount | None = None
    ratio_high: Amount | None = None
    peak: Amount | None = None
    """Bytes of memory of one call at its peak."""
    tests: Count = 0
    failed: Count = 0
    """Failed tests, known bugs included."""
    known: Count = 0
    """Failures that are known bugs or expected."""

    @property
    def table(self) -> tuple[str, ...]:
        """The key that rows share if they were measured round by round together."""
        return self.contract, self.workload, self.dtype, self.device, str(self.threads), self.direction, self.cache

    @property
    def table_in_words(self) -> str:
        """The timed table of the line, in words."""
        return table_in_words(self.workload, self.dtype, self.device, self.threads, self.direction, self.cache)


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run in history. `marks` lists differences from the run before on the machine: `torch 2.12.0 → 2.13.0`."""

    machine: str
    id: str
    started: str
    commit: str
    torch: str
    marks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Point:
    """The value of a series in a run, with the interval of its samples; an unbounded end is missing."""

    run: str
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A step in a series: from `run` on, the level is `ratio` (from `low` to `high`) times the level until `after`."""

    run: str
    after: str
    ratio: float
    low: float
    high: float
    verdict: str
    marks: tuple[str, ...] = ()
    """What else changed between these two runs: PyTorch, the sources of either implementation."""


@dataclass(frozen=True, slots=True)
class Series:
    """One quantity of an implementation in one timed table on one machine, a point per run, the newest last.

    `quantity` is `ratio`: time as a multiple of the baseline's in the same rounds; `time` in seconds without such a
    ratio; or `memory`: bytes at the peak of a call.
    """

    machine: str
    implementation: str
    contract: str
    workload: str
    table: str
    quantity: str
    baseline: str
    points: tuple[Point, ...]
    changes: tuple[Change, ...] = ()

    @property
    def levels(self) -> tuple[float, ...]:
        """The medians between steps, the newest last; there is one more than steps."""
        runs = [point.run for point in self.points]
        starts = [0, *(runs.index(change.run) for change in self.changes)]
        parts = (self.points[start:end] for start, end in zip(starts, [*starts[1:], len(runs)], strict=True))
        return tuple(median(point.value for point in part) for part in parts)


@dataclass(frozen=True, slots=True)
class Event:
    """A status or a number of failures in `run` that differs from the run before, as `measured` → `refused`."""

    machine: str
    run: str
    implementation: str
    workload: str
    what: str
    before: str
    now: str


@dataclass(frozen=True, slots=True)
class History:
    """The runs of a folder of results, by machine and then by start, with their series and events."""

    runs: tuple[PastRun, ...] = ()
    series: tuple[Series, ...] = ()
    events: tuple[Event, ...] = ()
    least: int = 2 * MIN_RUNS
    """Runs that a series needs for a step to be found."""


@gc_paused()
def history_of(results: Path) -> History:
    """The history of a folder of results. Raises UsageError for a damaged file."""
    lines = sorted(read_lines(results), key=lambda line: (line.machine, line.started, line.run))
    by_machine: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        by_machine[line.machine].append(line)
    return History(
        tuple(run for group in by_machine.values() for run in _runs(group)),
        tuple(series for group in by_machine.values() for series in _series(group)),
        tuple(event for group in by_machine.values() for event in _events(group)),
    )


def update(results: Path, source: Path | None = None) -> int:
    """Add the finished runs of a folder of results, or of `source`, to its history.csv; return the number of new runs.

    Raises UsageError if a file cannot be read or written.
    """
    stored, known = list(_stored(results / FILE)), read_lines(source or results)
    if source and not known:
        raise UsageError(f"{source} holds no results; `attnsuite run` makes them")
    there = {(line.machine, line.run) for line in stored}
    new = [line for line in known if (line.machine, line.run) not in there]
    if new:
        text = io.StringIO()
        writer = csv.DictWriter(text, [field.name for field in structs.fields(Line)], lineterminator="\n")
        writer.writeheader()
        order = attrgetter("machine", "started", "run", "implementation", "device", "table")
        writer.writerows(lean(line) for line in sorted([*stored, *new], key=order))
        replace_file(results / FILE, text.getvalue())
    return len({(line.machine, line.run) for line in new})


def read_lines(results: Path) -> list[Line]:
    """The lines of history.csv, and the lines of finished runs that it lacks."""
    lines = list(_stored(results / FILE))
    there = {(line.machine, line.run) for line in lines}
    for machine in machines(results):
        for folder, run in runs_of(results, machine).items():
            if run.finished and (machine, run.id) not in there:
                lines += lines_of(run, read_rows(folder, "measurements"), read_rows(folder, "outcomes"))  # type: ignore[arg-type]
    return lines


def _stored(path: Path) -> Iterator[Line]:
    if not path.exists():
        return
    with file_errors(path, "read"):
        rows = csv.DictReader(io.StringIO(read_text(path)))
    for number, row in enumerate(rows, 2):
        try:
            cells = {name: value for name, value in row.items() if value}
            yield msgspec.convert({"commit": "", "torch": "", **cells}, Line, strict=False)
        except (msgspec.ValidationError, TypeError) as error:
            raise DamagedFile(path, str(error), f"line {number}") from None


def lines_of(run: Run, measurements: Sequence[Measurement], outcomes: Iterable[Outcome]) -> Iterator[Line]:
    """The lines of a run: its measurements, and the failures of each implementation on each device."""
    shared: dict[str, Any] = {"machine": run.machine.name, "run": run.id, "started": run.started, "commit": run.commit}
    shared["torch"] = run.versions.get("torch", "")
    names = {name: f"{name}/{facts.baseline}" for name, facts in run.facts.contracts.items() if facts.baseline}
    baselines = {(m.contract, *m.table): m.seconds for m in measurements if m.implementation == names.get(m.contract)}
    same = ("implementation", "contract", "workload", "dtype", "device", "threads", "direction", "cache")
    for row in measurements:
        base = baselines.get((row.contract, *row.table), ())
        logs = [math.log(seconds / other) for seconds, other in zip(row.seconds, base, strict=False)]
        ratios = [None if value is None else math.exp(value) for value in _summary(logs)]
        numbers: dict[str, Any] = dict(zip(("median", "low", "high"), _summary(row.seconds), strict=True))
        numbers |= zip(("ratio", "ratio_low", "ratio_high"), ratios, strict=True)
        yield Line(
            **shared,
            **{name: getattr(row, name) for name in same},
            **numbers,
            source=run.sources.get(row.implementation, ""),
            status=str(row.status),
            rounds=len(row.seconds),
            baseline=names[row.contract] if logs else "",
            peak=row.peak,
        )
    tests: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for outcome in outcomes:
        failed = outcome.status in FAILURES
        known = failed and not outcome.fails
        counts = {"tests": int(outcome.case != EVERY_CASE), "failed": int(failed), "known": int(known)}
        tests[outcome.implementation, outcome.contract, outcome.device].update(counts)
    for (name, contract, device), counted in tests.items():
        named: dict[str, Any] = {"implementation": name, "contract": contract, "device": device, **shared, **counted}
        yield Line(source=run.sources.get(name, ""), **named)


def _summary(samples: Sequence[float]) -> tuple[float | None, ...]:
    if not samples:
        return None, None, None
    middle = interval(samples)
    return tuple(value if math.isfinite(value) else None for value in (middle.median, middle.low, middle.high))


def _runs(lines: Sequence[Line]) -> Iterator[PastRun]:
    before = ""
    for line in {line.run: line for line in lines}.values():
        marks = (f"torch {before} → {line.torch}",) if before not in ("", line.torch) else ()
        yield PastRun(line.machine, line.run, line.started, line.commit, line.torch, marks)
        before = line.torch


def _series(lines: Sequence[Line]) -> list[Series]:
    """The series of one machine with their steps. Series of the same quantity are tested together."""
    sources = {(line.run, line.implementation): line.source for line in lines}
    torch = {line.run: line.torch for line in lines}
    points: dict[tuple[str, ...], list[Point]] = defaultdict(list)
    lines_by_key: dict[tuple[str, ...], Line] = {}
    for line in lines:
        for quantity, point in _points(line):
            key = (quantity, line.baseline if quantity == "ratio" else "", line.implementation, *line.table)
            points[key].append(point)
            lines_by_key[key] = line
    series = []
    for quantity in VERDICTS:
        keys = [key for key in points if key[0] == quantity]
        steps_by_key = steps_of([[math.log(point.value) for point in points[key]] for key in keys])
        for key, steps in zip(keys, steps_by_key, strict=True):
            line, at = lines_by_key[key], points[key]
            changes = []
            for step in steps:
                run, after = at[step.at].run, at[step.at - 1].run
                marks = [f"torch {torch[after]} → {torch[run]}"] if torch[after] != torch[run] else []
                names = {line.implementation: "its source changed", key[1]: f"the source of {key[1]} changed"}
                marks += [w for name, w in names.items() if sources.get((run, name)) != sources.get((after, name))]
                verdict = VERDICTS[quantity][step.ratio < 1]
                changes.append(Change(run, after, step.ratio, step.low, step.high, verdict, tuple(marks)))
            words = (line.machine, line.implementation, line.contract, line.workload, line.table_in_words)
            series.append(Series(*words, quantity, key[1], tuple(at), tuple(changes)))
    return sorted(series, key=lambda item: (item.contract, item.table, item.implementation, item.quantity))


def _points(line: Line) -> Iterator[tuple[str, Point]]:
    if line.ratio and line.implementation != line.baseline:
        yield "ratio", Point(line.run, line.ratio, line.ratio_low, line.ratio_high)
    elif line.median:
        yield "time", Point(line.run, line.median, line.low, line.high)
    if line.peak is not None and line.peak >= LEAST_MEMORY:
        yield "memory", Point(line.run, line.peak)


def _events(lines: Sequence[Line]) -> Iterator[Event]:
    """Statuses of measurements and numbers of failures that differ from the last run that had them."""
    last: dict[tuple[str, ...], str] = {}
    for line in lines:
        key = (line.implementation, *line.table)
        if line.workload:
            what, now = f"{line.implementation}, {line.table_in_words}", line.status
        else:
            what, now = f"{line.implementation} on {line.device}", f"{line.failed} of {line.tests} tests failed"
        if last.setdefault(key, now) != now:
            yield Event(line.machine, line.run, line.implementation, line.workload, what, last[key], now)
        last[key] = now
