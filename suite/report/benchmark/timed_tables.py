"""Measurements → tables of rows that were timed together, with medians, intervals and comparisons."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from attnsuite.model import DIRECTIONS, DTYPES, EVERY_CASE, ContractFacts, Measurement, Run, Status, WorkloadFacts
from attnsuite.model.statistics import LEVEL, Comparison, Interval, compare, interval
from attnsuite.results.store import Recorded

BASELINE = "baseline"
"""The verdict on the row that the other rows of its table are compared with."""
ANOTHER_RUN = "another run"
"""The verdict on a row that was timed in another run than the baseline, so that the two cannot be compared."""

WorkloadKey = tuple[str, str]
"""A contract and the name of one of its workloads: two contracts may use the same name."""
Workloads = Mapping[WorkloadKey, WorkloadFacts]
"""What runs noted of workloads, in the order in which pages show them."""


@dataclass(frozen=True)
class Row:
    """One measurement, the interval of its median, and how it compares with the baseline of its table."""

    run: str
    of: Measurement
    time: Interval | None = None
    against: Comparison | None = None
    verdict: str = ""
    """One of VERDICTS, BASELINE or ANOTHER_RUN; empty if there is no baseline to compare with."""

    @property
    def name(self) -> str:
        """The implementation without its contract."""
        return self.of.implementation.removeprefix(f"{self.of.contract}/")

    @property
    def median(self) -> float | None:
        """Seconds of one call."""
        return self.time.median if self.time else None

    @property
    def net_peak(self) -> float | None:
        """Peak bytes of one call, less what the meter reads for a call that allocates nothing; None if not above 0."""
        if self.of.peak is None or not self.time:
            return None
        net = self.of.peak - (self.of.memory.get("constant") or 0.0)
        return net if 0 < net < math.inf else None

    @property
    def shown_peak(self) -> float | None:
        """What pages and charts say of memory: the net peak, 0 where nothing was seen; None where nothing was read."""
        return None if self.of.peak is None or not math.isfinite(self.of.peak) else self.net_peak or 0.0

    def rate(self, work: str = "attended") -> float | None:
        """Work per second: FLOPs of the pairs `attended` or by FlashAttention's `convention`, `tokens`, `images`."""
        amount = self.of.work.get(work)
        return amount / self.time.median if amount and self.time and math.isfinite(amount) else None

    @property
    def roofline(self) -> float | None:
        """The time that the work takes at the ceilings measured on this machine, as a share of the measured time."""
        least = [
            self.of.work[work] / self.of.ceilings[ceiling]
            for work, ceiling in (("attended", "flops"), ("bytes", "bytes"))
            if self.of.work.get(work) is not None and self.of.ceilings.get(ceiling)
        ]
        return max(least) / self.time.median if len(least) == 2 and self.time else None

    @property
    def joules(self) -> float | None:
        """Energy of one call."""
        found = self.of.telemetry.get("joules")
        return float(found) if isinstance(found, int | float) and self.time else None


@dataclass(frozen=True)
class Setting:
    """How a table was measured, apart from its workload. Tables of one setting are shown side by side."""

    contract: str
    dtype: str
    device: str
    threads: int
    direction: str
    cache: str

    @property
    def order(self) -> tuple[object, ...]:
        """Forward before backward, one thread before many, float32 before the half types."""
        direction = DIRECTIONS.index(self.direction) if self.direction in DIRECTIONS else len(DIRECTIONS)
        dtype = ["float32", *DTYPES].index(self.dtype) if self.dtype in DTYPES else len(DTYPES) + 1
        return self.contract, self.device, dtype, self.dtype, self.threads, direction, self.cache


@dataclass(frozen=True)
class TimedTable:
    """The rows that were measured together, round by round: the baseline first, then the others by name.

    An implementation that has one row for all workloads (its library is missing) has that row in each table.
    """

    workload: str
    setting: Setting
    rows: tuple[Row, ...]
    facts: WorkloadFacts
    place: int
    """The place of the workload among those that runs noted; one that no run noted comes last."""
    baseline: str = ""
    """The implementation that others are compared with, without its contract; empty if there is none."""

    @property
    def order(self) -> tuple[object, ...]:
        """A key to sort the tables of a contract by: workloads in the order of their contract, 2k before 16k."""
        return self.place, natural(self.workload)

    @property
    def short(self) -> str:
        """The name of the workload without its group."""
        return self.workload.removeprefix(f"{self.facts.group}/")

    @cached_property
    def measured(self) -> tuple[Row, ...]:
        """The rows that have a time."""
        return tuple(row for row in self.rows if row.time)

    def row(self, name: str) -> Row | None:
        """The row of an implementation, by its name without the contract."""
        return next((row for row in self.rows if row.name == name), None)


Baselines = Mapping[tuple[str, str], str]
"""What runs compared with, by the run's id and the contract, where that is not the contract's own baseline."""
Measured = tuple[str, Measurement]
"""The id of a run, and one of its rows."""


def tables(
    measured: Iterable[Measured],
    contracts: Mapping[str, ContractFacts],
    workloads: Workloads | None = None,
    baselines: Baselines | None = None,
) -> list[TimedTable]:
    """The tables that these rows form, whatever the order of the rows.

    `contracts` name the baseline of each contract, `baselines` another where a run compared with that; the rows of a
    contract without a baseline are not compared.
    """
    members: dict[tuple[str, Setting], list[Measured]] = defaultdict(list)
    about_all: list[Measured] = []
    for run, of in measured:
        if of.workload == EVERY_CASE:
            about_all.append((run, of))
        else:
            setting = Setting(of.contract, of.dtype, of.device, of.threads, of.direction, of.cache)
            members[of.workload, setting].append((run, of))
    known = workloads or {}
    places = {key: place for place, key in enumerate(known)}
    found = []
    for (workload, setting), rows in members.items():
        usual, key = contracts.get(setting.contract, ContractFacts()).baseline, (setting.contract, workload)
        newest = max(run for run, _ in rows)  # the number of a run begins with its time
        baseline = (baselines or {}).get((newest, setting.contract), usual)
        compared = _rows([*rows, *_absent(about_all, setting, rows)], baseline)
        place = places.get(key, len(places))
        found.append(TimedTable(workload, setting, compared, facts_of(known, key), place, baseline))
    return sorted(found, key=lambda table: (table.setting.order, natural(table.workload)))


def facts_of(workloads: Workloads, key: WorkloadKey) -> WorkloadFacts:
    """What is noted of a workload; of one that no run noted, the group that its name says."""
    group, _, _ = key[1].rpartition("/")
    return workloads.get(key) or WorkloadFacts(group or key[1], "", "", 0)


def names(tables: Sequence[TimedTable]) -> list[str]:
    """The implementations in these tables, without their contract, the baseline first."""
    baselines = {table.baseline for table in tables}
    return sorted({row.name for table in tables for row in table.rows}, key=lambda name: (name not in baselines, name))


def runs_of(tables: Iterable[TimedTable], recorded: Recorded) -> list[Run]:
    """The runs that the times in these tables come from, the newest last."""
    return recorded.runs_of(row.run for table in tables for row in table.measured)


def natural(text: str) -> tuple[object, ...]:
    """A key to sort texts by, so that 2k comes before 16k."""
    return tuple((int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", text))


def _absent(about_all: Sequence[Measured], setting: Setting, rows: Sequence[Measured]) -> list[Measured]:
    """The rows about all workloads of implementations that have no row of their own here."""
    there = {of.implementation for _, of in rows}
    return [
        (run, of)
        for run, of in about_all
        if (of.contract, of.device) == (setting.contract, setting.device) and of.implementation not in there
    ]


def _rows(members: Sequence[Measured], baseline: str) -> tuple[Row, ...]:
    found = [
        Row(run, of, interval(of.seconds) if of.status == Status.MEASURED and of.seconds else None)
        for run, of in members
    ]
    base = next((row for row in found if row.time and row.name == baseline), None)
    if base:
        others = {row.name: row.of for row in found if row.time and row.run == base.run and row is not base}
        seconds, processes = (
            {name: getattr(of, what) for name, of in others.items()} for what in ("seconds", "processes")
        )
        against = compare(base.of.seconds, seconds, LEVEL, processes, base.of.processes)
        found = [_compared(row, base, against) for row in found]
    return tuple(sorted(found, key=lambda row: (row.name != baseline, row.name)))


def _compared(row: Row, base: Row, against: Mapping[str, Comparison]) -> Row:
    """The row with its verdict, if it has a time."""
    if not row.time:
        return row
    if row is base:
        return replace(row, verdict=BASELINE)
    found = against.get(row.name)
    return replace(row, against=found, verdict=found.verdict if found else ANOTHER_RUN)
