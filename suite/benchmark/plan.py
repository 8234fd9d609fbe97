"""What a benchmark will time, and about how long that takes: estimates, made before anything is started."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attnsuite import registry
from attnsuite.benchmark.request import Table, declaration_of
from attnsuite.benchmark.series import Benchmark


@dataclass(frozen=True)
class Estimate:
    """Seconds that parts of a benchmark are expected to take."""

    start: float
    """Of an implementation: importing it, and holding it against what the workloads use of the contract."""
    making: float
    """Of a row: making inputs, the first call, warming up."""
    weighing: float
    """Of a row: memory, kernels, energy, and what of its answers is verified."""
    another: float = 0.5
    """Of each process of an implementation after the first: importing it."""
    rounds: float = 2.0
    """What rounds take, as a multiple of the timed calls in them: new inputs, questions and proofs come with them."""

    def row(self, budget: float, processes: int = 1) -> float:
        """Seconds of a row with so many seconds of timed calls."""
        return processes * self.making + self.rounds * budget + self.weighing

    def starts(self, processes: int) -> float:
        """Seconds until an implementation is ready to be timed in so many processes."""
        return self.start + (processes - 1) * self.another


ESTIMATES = {"cpu": Estimate(3.0, 0.2, 0.2), "cuda": Estimate(10.0, 2.0, 3.0)}
"""By kind of device. A CPU's are those with which the profiles `quick` and `standard` come out at what they take on a
Xeon with two cores. A GPU's are assumptions: no benchmark has run on a GPU since they were made."""
ASSUMED = {"cpu": "an estimate", "cuda": "an estimate that no GPU has confirmed"}
"""How an estimate is said, by kind of device."""


@dataclass(frozen=True)
class Planned:
    """One contract's part: its tables, who will be timed in some of them, why others will not, and how many rows."""

    benchmark: Benchmark
    tables: Sequence[Table]
    members: Sequence[str]
    left_out: Sequence[str]
    rows: int

    @property
    def seconds(self) -> float:
        """About how long it takes."""
        request = self.benchmark.request
        estimate = ESTIMATES[request.kind]
        processes = request.in_processes
        return len(self.members) * estimate.starts(processes) + self.rows * estimate.row(request.seconds, processes)


def planned(benchmark: Benchmark) -> Planned:
    """What is known of a benchmark without importing anything that it times."""
    tables, kind = benchmark.tables(), benchmark.request.kind
    members, left_out, rows = [], [], 0
    for each in map(declaration_of, benchmark.implementations):
        absent = registry.absent(each)
        declined = [table.declined(each, benchmark.contract, kind) for table in tables]
        timed = 0 if each.broken or absent else declined.count(None)
        rows += timed
        if timed:
            members.append(each.full_name)
        else:
            why = each.broken or (absent.reason if absent else next(str(of) for of in declined if of))
            left_out.append(f"{each.full_name}: {why}")
    return Planned(benchmark, tables, members, left_out, rows)


def plan_lines(benchmarks: Sequence[Benchmark]) -> Iterator[str]:
    """The plan for people: a line for each group of workloads, and what all of it takes."""
    plans = [planned(each) for each in benchmarks]
    for plan in plans:
        yield f"{plan.benchmark.contract.name}: {_tables(plan.tables)}, {_counted(plan.members)}, {plan.rows} rows"
        for group in dict.fromkeys(table.workload.group for table in plan.tables):
            yield f"  {_of_group([table for table in plan.tables if table.workload.group == group])}"
        yield f"  of {', '.join(each.partition('/')[2] for each in plan.members)}"
        yield from (f"  without {each}" for each in plan.left_out)
    request = benchmarks[0].request
    seconds = sum(plan.seconds for plan in plans)
    said = f"about {duration(seconds)} on {request.device}, {ASSUMED[request.kind]}: "
    yield said + f"{request.seconds:g} s of timed calls a row, calls up to {request.slowest:g} s, nothing is started"


def duration(seconds: float) -> str:
    """Seconds in words that promise no more than an estimate can."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{max(10, round(seconds, -1)):.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _counted(members: Sequence[str]) -> str:
    return f"{len(members)} implementation{'' if len(members) == 1 else 's'}"


def _of_group(tables: Sequence[Table]) -> str:
    workloads = len({table.workload.name for table in tables})
    said = [_words(table.dtype for table in tables), _words(table.direction.replace("_", " and ") for table in tables)]
    threads = [f"{each} thread{'s' * (each > 1)}" for each in sorted({table.threads for table in tables}) if each]
    of = f"{workloads} workload{'' if workloads == 1 else 's'}"
    return f"{tables[0].workload.group}: {_tables(tables)} of {of}, {'; '.join([*said, *threads])}"


def _tables(tables: Sequence[Table]) -> str:
    return f"{len(tables)} table{'' if len(tables) == 1 else 's'}"


def _words(of: Iterator[str]) -> str:
    return ", ".join(dict.fromkeys(of))
