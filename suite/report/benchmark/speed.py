"""Measurements → tables of rows that were timed together, with medians, intervals and comparisons."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from suite.records import DIRECTIONS, DTYPES, EVERY_CASE, ContractFacts, Measurement, Run, Status
from suite.statistics import Comparison, Interval, compare, interval
from suite.store import Recorded

BASELINE = "baseline"
"""The verdict on the row with which the others are compared."""
ANOTHER_RUN = "another run"
"""The verdict on a row that was not timed in the same rounds as the baseline, so not compared with it."""

Subject = tuple[str, str]
"""A contract and one of its workloads: other contracts may have one of the same name."""


@dataclass(frozen=True)
class Row:
    """One measurement, the interval of its median, and how it compares with the baseline of its table."""

    run: str
    of: Measurement
    time: Interval | None = None
    against: Comparison | None = None
    verdict: str = ""
    """One of VERDICTS, BASELINE or ANOTHER_RUN; empty where there is nothing to compare."""

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
        """Peak bytes of one call above what the meter says of a call that allocates nothing; None where not above."""
        if self.of.peak is None or not self.time:
            return None
        net = self.of.peak - (self.of.memory.get("constant") or 0.0)
        return net if 0 < net < math.inf else None

    def rate(self, work: str = "attended") -> float | None:
        """FLOPs per second, by the pairs `attended` or by FlashAttention's `convention`; or `tokens`, or `images`."""
        flops = self.of.work.get(work)
        return flops / self.time.median if flops and self.time and math.isfinite(flops) else None

    @property
    def roofline(self) -> float | None:
        """The share of its time that the work would take at the ceilings measured on this machine."""
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
class Table:
    """The rows that were measured round by round together, the baseline first and the others by name.

    An implementation of which one row speaks for all workloads (its library is missing) has that row here as well.
    """

    workload: str
    setting: Setting
    rows: tuple[Row, ...]
    baseline: str = ""
    """The implementation with which the others are compared, without its contract; empty where none is."""

    @property
    def subject(self) -> Subject:
        return self.setting.contract, self.workload

    @cached_property
    def measured(self) -> tuple[Row, ...]:
        """The rows that have a time."""
        return tuple(row for row in self.rows if row.time)

    def row(self, name: str) -> Row | None:
        """The row of an implementation, by its name without the contract."""
        return next((row for row in self.rows if row.name == name), None)


def tables(measured: Iterable[tuple[str, Measurement]], contracts: Mapping[str, ContractFacts]) -> list[Table]:
    """The tables of some rows, each with the id of its run. They do not depend on the order of the rows.

    `contracts` name the baseline of each contract; where one names none, its rows are not compared.
    """
    members: dict[tuple[str, Setting], list[tuple[str, Measurement]]] = defaultdict(list)
    about_all: list[tuple[str, Measurement]] = []
    for run, of in measured:
        if of.workload == EVERY_CASE:
            about_all.append((run, of))
        else:
            setting = Setting(of.contract, of.dtype, of.device, of.threads, of.direction, of.cache)
            members[of.workload, setting].append((run, of))
    found = []
    for (workload, setting), rows in members.items():
        baseline = contracts.get(setting.contract, ContractFacts()).baseline
        found.append(Table(workload, setting, _rows([*rows, *_absent(about_all, setting, rows)], baseline), baseline))
    return sorted(found, key=lambda table: (table.setting.order, natural(table.workload)))


def names(tables: Sequence[Table]) -> list[str]:
    """The implementations of some tables, without their contract, the baseline first."""
    baselines = {table.baseline for table in tables}
    return sorted({row.name for table in tables for row in table.rows}, key=lambda name: (name not in baselines, name))


def runs_of(tables: Iterable[Table], recorded: Recorded) -> list[Run]:
    """The runs in which something was timed of these tables, the newest last."""
    return recorded.runs_of(row.run for table in tables for row in table.measured)


def natural(text: str) -> tuple[object, ...]:
    """An order in which 2k comes before 16k."""
    return tuple((int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", text))


def _absent(
    about_all: Sequence[tuple[str, Measurement]], setting: Setting, rows: Sequence[tuple[str, Measurement]]
) -> list[tuple[str, Measurement]]:
    there = {of.implementation for _, of in rows}
    return [
        (run, of)
        for run, of in about_all
        if (of.contract, of.device) == (setting.contract, setting.device) and of.implementation not in there
    ]


def _rows(members: Sequence[tuple[str, Measurement]], baseline: str) -> tuple[Row, ...]:
    found = [_row(run, of) for run, of in members]
    base = next((row for row in found if row.time and row.name == baseline), None)
    if base:
        others = {row.name: row.of.seconds for row in found if row.time and row.run == base.run and row is not base}
        against = compare(base.of.seconds, others)
        found = [_compared(row, base, against) for row in found]
    return tuple(sorted(found, key=lambda row: (row.name != baseline, row.name)))


def _row(run: str, of: Measurement) -> Row:
    return Row(run, of, interval(of.seconds) if of.status == Status.MEASURED and of.seconds else None)


def _compared(row: Row, base: Row, against: Mapping[str, Comparison]) -> Row:
    """The row with its verdict, where it has a time."""
    if not row.time:
        return row
    if row is base:
        return replace(row, verdict=BASELINE)
    found = against.get(row.name)
    return replace(row, against=found, verdict=found.verdict if found else ANOTHER_RUN)
