"""What became of times, memory and answers over runs: what pages and the command line show of history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from attnsuite.model.measurement import table_in_words


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A run in history. `marks` say what is unlike the run before on the machine: `torch 2.12.0 → 2.13.0`."""

    id: str
    machine: str
    started: str
    commit: str
    versions: Mapping[str, str]
    marks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Point:
    """What a run found, with the interval of its own samples; an end that has none is None."""

    run: str
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A step in a series: from `run` on, the level is `ratio` times what it was until `after`, within low and high.

    `verdict` is `slower` or `faster`, of memory `more` or `less`.
    """

    run: str
    after: str
    ratio: float
    low: float
    high: float
    verdict: str
    marks: tuple[str, ...] = ()
    """What else changed between these two runs: libraries, the system, the sources of either implementation."""


@dataclass(frozen=True, slots=True)
class Series:
    """One quantity of an implementation in one timed table on one machine, a point for each run, the newest last.

    `quantity` is `ratio`, time as a multiple of that of `baseline` in the same rounds; `time`, in seconds, of what has
    no such ratio, as the baseline itself; or `memory`, in bytes at the peak of a call.
    """

    machine: str
    implementation: str
    contract: str
    workload: str
    dtype: str
    device: str
    threads: int
    direction: str
    cache: str
    quantity: str
    baseline: str
    points: tuple[Point, ...]
    changes: tuple[Change, ...] = ()
    breaks: tuple[str, ...] = ()
    """The runs before which libraries, the system or the baseline's source changed: a line is broken there."""

    @property
    def table(self) -> str:
        """The timed table in words: `ladder/1k float32 cpu 1 thread forward hot`."""
        return table_in_words(self.workload, self.dtype, self.device, self.threads, self.direction, self.cache)

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels between steps, the newest last: one more than there are steps."""
        runs = [point.run for point in self.points]
        starts = [0, *(runs.index(change.run) for change in self.changes)]
        parts = (self.points[start:end] for start, end in zip(starts, [*starts[1:], len(runs)], strict=True))
        return tuple(Level(of[0].run, of[-1].run, median(point.value for point in of)) for of in parts)


@dataclass(frozen=True, slots=True)
class Level:
    """The median of a series from one run to another."""

    first: str
    last: str
    value: float


@dataclass(frozen=True, slots=True)
class Answers:
    """How many questions an implementation was asked in a run, and how many it passed and failed.

    `known` of the failures are recorded by findings.
    """

    run: str
    asked: int
    passed: int
    failed: int
    known: int


@dataclass(frozen=True, slots=True)
class Changed:
    """A question that is answered otherwise in `run` than in `after`, the last run before that asked it.

    `before` and `now` are statuses, `wrong (known)` where a finding records it. A question that is new and not passed
    has an empty `before`.
    """

    run: str
    after: str
    case: str
    dtype: str
    before: str
    now: str


@dataclass(frozen=True, slots=True)
class Conformance:
    """The answers of an implementation on a device of a machine, a point for each run, the newest last."""

    machine: str
    implementation: str
    device: str
    points: tuple[Answers, ...]
    changes: tuple[Changed, ...] = ()


@dataclass(frozen=True, slots=True)
class StatusChange:
    """A measurement whose status in `run` is `now`, and was `before` in `after`: `measured` → `refused`.

    `table` is the timed table in words, as `Series.table` has it.
    """

    machine: str
    implementation: str
    workload: str
    table: str
    run: str
    after: str
    before: str
    now: str


@dataclass(frozen=True, slots=True)
class History:
    """All that is kept of a folder of results, in the order of runs on each machine."""

    runs: tuple[KeptRun, ...] = ()
    series: tuple[Series, ...] = ()
    conformance: tuple[Conformance, ...] = ()
    statuses: tuple[StatusChange, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader should know: that steps were not looked for, and why."""
    least: int = field(default=4)
    """Runs that a series needs for a step to be found."""
