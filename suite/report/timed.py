"""Measurements → tables of rows that were timed together, with medians, intervals and comparisons, also in words."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from attnsuite.model import (
    DIRECTIONS,
    DTYPES,
    EVERY_CASE,
    ContractFacts,
    Machine,
    Measurement,
    Reason,
    Status,
    WorkloadFacts,
)
from attnsuite.model.faster import MARGIN, Comparison, compare
from attnsuite.model.rows import METER_ERROR
from attnsuite.model.statistics import LEVEL, Interval, interval
from attnsuite.report import facts
from attnsuite.report.cells import NOTHING
from attnsuite.report.units import Unit, size, speed, speeds, time_unit
from attnsuite.results import Recorded

ATTENTION = "attention"
"""The contract that the suite is about: it comes first on each page."""
BASELINE = "baseline"
"""The verdict on the row that the other rows of its table are compared with."""
ANOTHER_RUN = "another run"
"""The verdict on a row that was timed in another run than the baseline: the two cannot be compared."""
TOO_FEW = "too few rounds"
"""Replaces an interval that so few rounds cannot give at the confidence level."""

Workloads = Mapping[tuple[str, str], WorkloadFacts]
"""What runs noted of workloads, by contract and name, in the order in which pages show them."""
Measured = tuple[str, Measurement]
"""The id of a run, and one of its rows."""


@dataclass(frozen=True)
class Row:
    """One measurement, the interval of its median, and its comparison with the baseline of its table."""

    run: str
    measurement: Measurement
    time: Interval | None = None
    comparison: Comparison | None = None
    verdict: str = ""
    """One of VERDICTS, BASELINE or ANOTHER_RUN; empty without a baseline."""

    @property
    def name(self) -> str:
        """The implementation without its contract."""
        return self.measurement.implementation.removeprefix(f"{self.measurement.contract}/")

    @property
    def median(self) -> float | None:
        """Seconds of one call."""
        return self.time.median if self.time else None

    @property
    def net_peak(self) -> float | None:
        """Peak bytes of one call, less the meter's reading of a call that allocates nothing; None if not above 0."""
        if self.measurement.peak is None or not self.time:
            return None
        net = self.measurement.peak - (self.measurement.memory.get("constant") or 0.0)
        return net if 0 < net < math.inf else None

    @property
    def reported_peak(self) -> float | None:
        """The net peak in bytes, 0 where the meter saw nothing; None without a reading."""
        return (
            None if self.measurement.peak is None or not math.isfinite(self.measurement.peak) else self.net_peak or 0.0
        )

    def rate(self, work: str = "attended") -> float | None:
        """Work per second: FLOPs of the pairs `attended` or by FlashAttention's `convention`, `tokens`, `images`."""
        amount = self.measurement.work.get(work)
        return amount / self.time.median if amount and self.time and math.isfinite(amount) else None

    @property
    def roofline(self) -> float | None:
        """The time that the work takes at this machine's measured ceilings, as a share of the measured time."""
        least = [
            self.measurement.work[work] / self.measurement.ceilings[ceiling]
            for work, ceiling in (("attended", "flops"), ("bytes", "bytes"))
            if self.measurement.work.get(work) is not None and self.measurement.ceilings.get(ceiling)
        ]
        return max(least) / self.time.median if len(least) == 2 and self.time else None

    @property
    def joules(self) -> float | None:
        """Energy of one call."""
        energy = self.measurement.telemetry.get("joules")
        return float(energy) if isinstance(energy, int | float) and self.time else None


@dataclass(frozen=True)
class Setting:
    """How a table was measured, apart from its workload. Only tables of one setting form a series over length."""

    contract: str
    dtype: str
    device: str
    threads: int
    direction: str
    cache: str

    @property
    def order(self) -> tuple[object, ...]:
        """Attention first; forward before backward, one thread before many, float32 before the half types."""
        direction = DIRECTIONS.index(self.direction) if self.direction in DIRECTIONS else len(DIRECTIONS)
        dtype = ["float32", *DTYPES].index(self.dtype) if self.dtype in DTYPES else len(DTYPES) + 1
        rank = self.contract != ATTENTION, self.contract, self.device == "cpu", self.device
        return *rank, dtype, self.dtype, self.threads, direction, self.cache


@dataclass(frozen=True)
class TimedTable:
    """The rows that were measured together, round by round: the baseline first, then the others by name.

    An implementation with one row for all workloads (its library is missing) has that row in each table.
    """

    workload: str
    setting: Setting
    rows: tuple[Row, ...]
    facts: WorkloadFacts
    place: int
    """The place of the workload among those that runs noted; one that no run noted comes last."""
    baseline: str = ""
    """The implementation that others are compared with, without its contract; empty without one."""

    @property
    def order(self) -> tuple[object, ...]:
        """A key to sort tables by: workloads in the order of their contract, 2k before 16k."""
        return self.setting.order, self.place, natural(self.workload)

    @cached_property
    def measured(self) -> tuple[Row, ...]:
        """The rows with a time, the fastest first."""
        return tuple(sorted((row for row in self.rows if row.time), key=lambda row: (row.median, row.name)))

    @property
    def unit(self) -> Unit:
        """The unit of the times."""
        return time_unit(row.time.median for row in self.rows if row.time)


def tables(
    measured: Iterable[Measured],
    contracts: Mapping[str, ContractFacts],
    workloads: Workloads | None = None,
    baselines: Mapping[tuple[str, str], str] | None = None,
) -> list[TimedTable]:
    """The tables that these rows form, in the order of pages.

    `contracts` name the baseline of each contract; `baselines`, by run and contract, another that a run compared with.
    Rows of a contract without a baseline are not compared.
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
    formed = []
    for (workload, setting), rows in members.items():
        usual, key = contracts.get(setting.contract, ContractFacts()).baseline, (setting.contract, workload)
        newest = max(run for run, _ in rows)  # the id of a run begins with its time
        baseline = (baselines or {}).get((newest, setting.contract), usual)
        compared = _rows([*rows, *_absent(about_all, setting, rows)], baseline)
        place = places.get(key, len(places))
        formed.append(TimedTable(workload, setting, compared, _facts_of(known, key), place, baseline))
    return sorted(formed, key=lambda table: table.order)


def tables_of(recorded: Recorded) -> list[TimedTable]:
    """The timed tables of a machine, with what its runs note of contracts, workloads and baselines."""
    baselines = {(run.id, of): name for run in recorded.runs.values() for of, name in run.facts.baselines.items()}
    return tables(recorded.measured, facts.contracts(recorded), _workloads(recorded), baselines)


def _workloads(recorded: Recorded) -> Workloads:
    """What the runs note of each contract's workloads. The newest run that notes a workload counts."""
    noted: dict[str, dict[str, WorkloadFacts]] = defaultdict(dict)
    for run in reversed(list(recorded.runs.values())):
        for contract, of in run.facts.workloads.items():
            noted[contract] = {**noted[contract], **of, **noted[contract]}
    return {(contract, name): facts for contract, of in noted.items() for name, facts in of.items()}


def _facts_of(workloads: Workloads, key: tuple[str, str]) -> WorkloadFacts:
    """What is noted of a workload; of one that no run noted, the group that its name begins with."""
    group, _, _ = key[1].rpartition("/")
    return workloads.get(key) or WorkloadFacts(group or key[1], "", "", 0)


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
    rows = [
        Row(run, of, interval(of.seconds) if of.status == Status.MEASURED and of.seconds else None)
        for run, of in members
    ]
    base = next((row for row in rows if row.time and row.name == baseline), None)
    if base:
        others = {row.name: row.measurement for row in rows if row.time and row.run == base.run and row is not base}
        seconds = {name: of.seconds for name, of in others.items()}
        processes = {name: of.processes for name, of in others.items()}
        against = compare(base.measurement.seconds, seconds, LEVEL, processes, base.measurement.processes)
        rows = [_compared(row, base, against) for row in rows]
    return tuple(sorted(rows, key=lambda row: (row.name != baseline, row.name)))


def _compared(row: Row, base: Row, against: Mapping[str, Comparison]) -> Row:
    """The row with its verdict, if it has a time."""
    if not row.time:
        return row
    if row is base:
        return replace(row, verdict=BASELINE)
    comparison = against.get(row.name)
    return replace(row, comparison=comparison, verdict=comparison.verdict if comparison else ANOTHER_RUN)


# In words


def ends(low: float, high: float) -> str:
    """The interval of a speed-up, as `units.speeds` writes it."""
    return speeds(low, high) if low > 0 and math.isfinite(high) else TOO_FEW


def between(row: Row, unit: Unit) -> str:
    """The interval of a time: "11.9–12.4 ms"."""
    if not row.time:
        return ""
    return TOO_FEW if row.time.low <= 0 else f"{unit.bare(row.time.low)}–{unit.format(row.time.high)}"


def verdict(row: Row) -> str:
    """The comparison with the baseline: "2.31× faster", "equally fast", or why it cannot be said."""
    if row.comparison is None:
        return row.verdict
    if row.verdict in ("faster", "slower"):
        return speed(row.comparison.speedup)
    return "equally fast" if row.verdict == "same" else f"inconclusive: {inconclusive(row.comparison)}"


def inconclusive(of: Comparison) -> str:
    """Why a comparison has no verdict: too few rounds, within the margin, or noisy."""
    if of.why:
        return of.why
    if of.low <= 0 or not math.isfinite(of.high):
        return TOO_FEW
    return f"within {100 * MARGIN:g} %" if abs(math.log(of.speedup)) <= math.log1p(MARGIN) else "noisy"


def absence(of: Measurement) -> str:
    """Why there is no time, in one to three words."""
    if of.reason == Reason.TOO_SLOW:
        return "too slow"
    return of.status.replace("_", " ") + (" (known bug)" if of.known else "")


def peak(row: Row) -> str:
    """The net peak of memory; "≤ 1 MiB" where the meter tells no smaller ones apart."""
    if row.reported_peak is None:
        return NOTHING
    if row.measurement.memory.get("allocator") is None and row.reported_peak <= METER_ERROR:
        return f"≤ {size(METER_ERROR)}"
    return size(row.reported_peak)


def threads(number: int, machine: Machine | None = None) -> str:
    """How many threads an implementation had: "one thread", "both cores"; empty on devices other than the CPU."""
    if number < 2:
        return "one thread" if number else ""
    if machine is None or number not in (machine.cores, machine.threads):
        return f"{number} threads"
    what = "cores" if number == machine.cores else "threads"
    return f"both {what}" if number == 2 else f"all {number} {what}"


def setting_words(of: Setting, machine: Machine | None = None) -> str:
    """How a table was measured: "float32 on cpu, one thread, forward, hot cache"."""
    direction = of.direction.replace("_", " and ")
    words = (f"{of.dtype} on {of.device}", threads(of.threads, machine), direction, f"{of.cache} cache")
    return ", ".join(filter(None, words))
