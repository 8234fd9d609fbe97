"""`attnsuite bench`: measurements to the terminal, to results/ row by row, and, if asked, to a JSON file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from suite import campaign, registry
from suite.commands.checking import JsonRows, chosen
from suite.commands.reporting import report
from suite.commands.showing import Shown, say_how_it_starts
from suite.records import Measurement, UsageError
from suite.records.limits import TIME_LIMIT
from suite.statistics import interval
from suite.store import Results

if TYPE_CHECKING:
    from suite.benchmark import Request


@dataclass(frozen=True)
class Options:
    """What the command line says about a benchmark; the fields of `suite.benchmark.Request`."""

    workloads: Sequence[str] = ()
    profile: str | None = None
    device: str = "cpu"
    backward: bool = False
    cache: str | None = None
    threads: Sequence[int] = ()
    time_limit: float = TIME_LIMIT
    budget: float | None = None

    def request(self) -> Request:
        """The request that these options make. Raises UsageError for what does not exist."""
        from suite.benchmark import Request

        return Request(
            tuple(self.workloads), self.profile, self.device, self.backward, self.cache, tuple(self.threads),
            self.time_limit, self.budget,
        )  # fmt: skip


def bench(
    targets: Sequence[str],
    contract: str | None,
    options: Options,
    json_file: str | None,
    results: Path,
    leave_out: Sequence[str] = (),
) -> int:
    """Time the targets (all by default) beside the baseline, resuming an interrupted run; return the exit status."""
    named = chosen(targets, leave_out, contract)
    if len(named) == 1 and targets and (missing := registry.absent(named[0])):
        raise UsageError(f"{named[0].full_name} is missing: {missing.reason}")
    timed = campaign.with_workloads(named)
    if not timed:
        raise UsageError(f"nothing is timed of {', '.join(dict.fromkeys(each.contract for each in named))}")
    declarations = campaign.with_baseline(timed, leave_out)
    request = options.request()
    benchmarks = campaign.benchmarks_of(declarations, request)
    benchmarks[0].expect()
    for benchmark in benchmarks:
        benchmark.earlier = campaign.known_outcomes(results, declarations, request.device)
    new = campaign.new_run(declarations, request.words, campaign.benchmark_facts(benchmarks))
    total = sum(len(benchmark.tables()) for benchmark in benchmarks)
    with JsonRows(json_file) as rows, Results(results).open_run(new) as writer:
        say_how_it_starts(writer)
        lines = sys.stderr if json_file == "-" else sys.stdout
        with Shown(total, lines, measurement=lambda each: rows.write(row(each))) as shown:
            found = campaign.bench(benchmarks, writer, shown)
        writer.finish(
            workloads=campaign.workloads_of(benchmarks),
            profile=request.timed_as or "",
            seconds=campaign.seconds_spent(benchmarks),
        )
    report(results, writer.run.machine.name)
    return status(found)


def row(measurement: Measurement) -> dict[str, object]:
    """A measurement as a JSON row: its fields, and beside the samples their median and its 99 % interval."""
    data = asdict(measurement)
    if measurement.seconds:
        data |= {
            name: value if isfinite(value) else None for name, value in asdict(interval(measurement.seconds)).items()
        }
    return {**data, "peak": measurement.peak}


def status(found: Sequence[Measurement]) -> int:
    """The exit status: 1 when a row fails."""
    return int(any(row.fails for row in found))
