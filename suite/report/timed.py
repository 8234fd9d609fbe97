"""Measurements → tables of rows that were timed together, with medians, intervals and comparisons."""

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
from attnsuite.report.page import NOTHING
from attnsuite.report.units import Unit, significant, size, speed, time_unit
from attnsuite.results import MachineRecord

ATTENTION = "attention"
"""The suite's main contract: it comes first on each page."""
BASELINE = "baseline"
"""The verdict on the row that the other rows of its table are compared with."""
ANOTHER_RUN = "another run"
"""The verdict on a row that was not timed in the run of the baseline: the two are not comparable."""
TOO_FEW = "too few rounds"
"""Replaces an interval that needs more rounds at the confidence level."""

Workloads = Mapping[tuple[str, str], WorkloadFacts]
"""Facts of workloads by contract and name, in the order of pages."""
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
        """Peak bytes of one call, minus the meter's reading of a call that allocates nothing; None if not above 0."""
        if self.measurement.peak is None or not self.time:
            return None
        net = self.measurement.peak - (self.measurement.memory.get("constant") or 0.0)
        return net if 0 < net < math.inf else None

    @property
    def reported_peak(self) -> float | None:
        """The net peak in bytes, 0 below the meter's resolution; None without a reading."""
        peak = self.measurement.peak
        return None if peak is None or not math.isfinite(peak) else self.net_peak or 0.0

    def rate(self, work: str = "attended") -> float | None:
        """Work per second: `attended` FLOPs, FLOPs by FlashAttention's `convention`, `bytes`, `tokens` or `images`."""
        amount = self.measurement.work.get(work)
        return amount / self.time.median if amount and self.time and math.isfinite(amount) else None

    @property
    def roofline(self) -> float | None:
        """The least time for the work at the machine's measured ceilings, as a share of the measured time."""
        least = [
            self.measurement.work[work] / self.measurement.ceilings[ceiling]
            for work, ceiling in (("attended", "flops"), ("bytes", "bytes"))
            if self.measurement.work.get(work) is not None and self.measurement.ceilings.get(ceiling)
        ]
        return max(least) / self.time.median if len(least) == 2 and self.time else None

    @property
    def of_bandwidth(self) -> float | None:
        """Bytes per second, as a share of the machine's measured bandwidth of copies."""
        rate, ceiling = self.rate("bytes"), self.measurement.ceilings.get("bytes")
        return rate / ceiling if rate and ceiling else None

    @property
    def joules(self) -> float | None:
        """Energy of one call."""
        energy = self.measurement.telemetry.get("joules")
        return float(energy) if isinstance(energy, int | float) and self.time else None


@dataclass(frozen=True)
class Setting:
    """The conditions of a table apart from its workload. Tables of one setting form a series over length."""

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
    """Rows that were measured together, round by round: the baseline first, then the others by name.

    A row about all workloads (a missing library) is in each table.
    """

    workload: str
    setting: Setting
    rows: tuple[Row, ...]
    facts: WorkloadFacts
    place: int
    """The position of the workload in the runs' facts; an unknown workload comes last."""
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
    """The tables of these rows, in the order of pages.

    `contracts` name the baseline of each contract. `baselines`, by run and contract, override it. Rows of a contract
    without a baseline are not compared.
    """
    members: dict[tuple[str, Setting], list[Measured]] = defaultdict(list)
    about_all: list[Measured] = []
    for run, row in measured:
        if row.workload == EVERY_CASE:
            about_all.append((run, row))
        else:
            setting = Setting(row.contract, row.dtype, row.device, row.threads, row.direction, row.cache)
            members[row.workload, setting].append((run, row))
    noted = workloads or {}
    places = {key: place for place, key in enumerate(noted)}
    formed = []
    for (workload, setting), rows in members.items():
        usual, key = contracts.get(setting.contract, ContractFacts()).baseline, (setting.contract, workload)
        newest = max(run for run, _ in rows)  # the id of a run begins with its time
        baseline = (baselines or {}).get((newest, setting.contract), usual)
        compared = _rows([*rows, *_absent(about_all, setting, rows)], baseline)
        place = places.get(key, len(places))
        known = noted.get(key) or WorkloadFacts(workload.rpartition("/")[0] or workload, "", "", 0)
        formed.append(TimedTable(workload, setting, compared, known, place, baseline))
    return sorted(formed, key=lambda table: table.order)


def tables_of(recorded: MachineRecord) -> list[TimedTable]:
    """The timed tables of a machine, with the facts of its runs."""
    named = ((run.id, run.facts.baselines) for run in recorded.runs.values())
    baselines = {(run, contract): name for run, names in named for contract, name in names.items()}
    return tables(recorded.measured, facts.contracts(recorded), _workloads(recorded), baselines)


def _workloads(recorded: MachineRecord) -> Workloads:
    """The facts of each contract's workloads, from the newest run that has them."""
    noted: dict[str, dict[str, WorkloadFacts]] = defaultdict(dict)
    for run in reversed(list(recorded.runs.values())):
        for contract, workloads in run.facts.workloads.items():
            noted[contract] = {**noted[contract], **workloads, **noted[contract]}
    return {(contract, name): facts for contract, workloads in noted.items() for name, facts in workloads.items()}


def natural(text: str) -> tuple[object, ...]:
    """A key to sort texts by, so that 2k comes before 16k."""
    return tuple((int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", text))


def _absent(about_all: Sequence[Measured], setting: Setting, rows: Sequence[Measured]) -> list[Measured]:
    """The rows about all workloads, for implementations without a row in this table."""
    present = {row.implementation for _, row in rows}
    return [
        (run, row)
        for run, row in about_all
        if (row.contract, row.device) == (setting.contract, setting.device) and row.implementation not in present
    ]


def _rows(members: Sequence[Measured], baseline: str) -> tuple[Row, ...]:
    timed = (interval(row.seconds) if row.status == Status.MEASURED and row.seconds else None for _, row in members)
    rows = [Row(run, row, time) for (run, row), time in zip(members, timed, strict=True)]
    base = next((row for row in rows if row.time and row.name == baseline), None)
    if base:
        others = {row.name: row.measurement for row in rows if row.time and row.run == base.run and row is not base}
        seconds = {name: measurement.seconds for name, measurement in others.items()}
        processes = {name: measurement.processes for name, measurement in others.items()}
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


def between(row: Row, unit: Unit) -> str:
    """The interval of a time: "11.9–12.4 ms"."""
    if not row.time:
        return ""
    return TOO_FEW if row.time.low <= 0 else f"{unit.bare(row.time.low)}–{unit.format(row.time.high)}"


def verdict(row: Row) -> str:
    """The comparison with the baseline: "2.31× faster", "equally fast", or the reason why it is inconclusive."""
    if row.comparison is None:
        return row.verdict
    if row.verdict in ("faster", "slower"):
        return speed(row.comparison.speedup)
    return "equally fast" if row.verdict == "same" else f"inconclusive: {inconclusive(row.comparison)}"


def inconclusive(comparison: Comparison) -> str:
    """The reason of an inconclusive comparison: too few rounds, within the margin, or noisy."""
    if comparison.why:
        return comparison.why
    if comparison.low <= 0 or not math.isfinite(comparison.high):
        return TOO_FEW
    return f"within {100 * MARGIN:g} %" if abs(math.log(comparison.speedup)) <= math.log1p(MARGIN) else "noisy"


def absence(measurement: Measurement) -> str:
    """The reason for a missing time, in one to three words."""
    if measurement.reason == Reason.TOO_SLOW:
        return "too slow"
    return measurement.status.replace("_", " ") + (" (known bug)" if measurement.known else "")


def peak(row: Row) -> str:
    """The net peak of memory; "≤ 1 MiB" below the meter's resolution."""
    if row.reported_peak is None:
        return NOTHING
    if row.measurement.memory.get("allocator") is None and row.reported_peak <= METER_ERROR:
        return f"≤ {size(METER_ERROR)}"
    return size(row.reported_peak)


def memory(row: Row) -> str:
    """The net peak; with packed items and caches the traffic, too: "2 MiB; 1.29 GB/s, 11 % of a copy's"."""
    rate = row.rate("bytes") if "padded" in row.measurement.work else None
    share = f", {100 * row.of_bandwidth:.0f} % of a copy's" if row.of_bandwidth else ""
    return f"{peak(row)}; {significant(rate / 1e9)} GB/s{share}" if rate else peak(row)


def threads(number: int, machine: Machine | None = None) -> str:
    """The number of threads: "one thread", "both cores"; empty on devices other than the CPU."""
    if number < 2:
        return "one thread" if number else ""
    if machine is None or number not in (machine.cores, machine.threads):
        return f"{number} threads"
    what = "cores" if number == machine.cores else "threads"
    return f"both {what}" if number == 2 else f"all {number} {what}"


def setting_words(setting: Setting, machine: Machine | None = None) -> str:
    """The setting of a table: "float32 on cpu, one thread, forward, hot cache"."""
    direction = setting.direction.replace("_", " and ")
    device = f"{setting.dtype} on {setting.device}"
    words = (device, threads(setting.threads, machine), direction, f"{setting.cache} cache")
    return ", ".join(filter(None, words))
