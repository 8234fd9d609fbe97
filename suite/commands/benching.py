"""`attnsuite bench`: measurements to the terminal, to results/ row by row, and, if asked, to a JSON file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from suite import campaign, registry
from suite.commands import sharding
from suite.commands.checking import chosen, refuse_broken, told
from suite.commands.json_rows import JsonRows
from suite.commands.progress import Shown, say_how_it_starts
from suite.commands.reporting import report
from suite.records import Measurement, UsageError
from suite.report import refuse_foreign_index
from suite.statistics import interval
from suite.store import Results

if TYPE_CHECKING:
    from suite.benchmark import Request


def bench(
    targets: Sequence[str],
    contract: str | None,
    asked: Callable[[], Request],
    json_file: str | None,
    results: Path,
    leave_out: Sequence[str] = (),
    signature: str = "",
) -> int:
    """Time the targets (all by default) beside the baseline, resuming an interrupted run; return the exit status.

    `asked` makes the request. It is called late, because it loads torch: a target that does not exist is said at once.
    """
    named = chosen(targets, leave_out, contract, signature=signature)
    refuse_broken(targets, named)
    if len(named) == 1 and targets and (missing := registry.absent(named[0])):
        raise UsageError(f"{named[0].full_name} is missing: {missing.reason}")
    refuse_foreign_index(results)
    timed = campaign.with_workloads(named)
    if not timed:
        contracts = ", ".join(dict.fromkeys(each.contract for each in named))
        raise UsageError(f"there are no workloads of {contracts}: `attnsuite list --workloads` shows what can be timed")
    declarations = campaign.with_baseline(timed, leave_out)
    request = asked()
    benchmarks = campaign.benchmarks_of(declarations, request)
    here = [benchmark for benchmark in benchmarks if benchmark.tables()]
    if not here:
        told(sharding.said_of_none(request.shard))
    folder = sharding.place(results, request.shard)
    facts = campaign.benchmark_facts(benchmarks)
    new = sharding.of(campaign.new_run(declarations, request.words, facts), request.shard)
    if (there := sharding.measurements_there(folder, new)) is not None:
        told(sharding.said_of_answered(folder, new, len(there)))
        return status(there)
    for benchmark in here[:1]:
        benchmark.expect()
    for benchmark in benchmarks:
        benchmark.earlier = campaign.known_outcomes(folder, declarations, request.device)
    total = sum(len(benchmark.tables()) for benchmark in here)
    lines = sys.stderr if json_file == "-" else sys.stdout
    with JsonRows(json_file) as rows, Results(folder).open_run(new) as writer:
        say_how_it_starts(writer)
        with Shown(total, lines, measurement=lambda each: rows.write(row(each))) as shown:
            found = campaign.bench(here, writer, shown)
        campaign.finish(writer, benchmarks, request)
    if request.shard is None:
        report(results, writer.run.machine.name, lines)
    return status(found)


def row(measurement: Measurement) -> dict[str, object]:
    """A measurement as a JSON row: its fields, and beside the samples their median and its interval."""
    data = asdict(measurement)
    if measurement.seconds:
        data |= {
            name: value if isfinite(value) else None for name, value in asdict(interval(measurement.seconds)).items()
        }
    return {**data, "peak": measurement.peak}


def status(found: Sequence[Measurement]) -> int:
    """The exit status: 1 if a row fails."""
    return int(any(row.fails for row in found))
