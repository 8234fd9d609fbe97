"""`attnsuite run`, the main job: check everything, time the quick profile, write results/, make the tables."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from attnsuite import campaign, registry
from attnsuite.commands import benching
from attnsuite.commands.checking import asked_again, chosen, refuse_broken, single_threaded, status
from attnsuite.commands.progress import Shown, say_how_it_starts
from attnsuite.commands.reporting import report
from attnsuite.records import UsageError
from attnsuite.records.options import check_jobs, check_name_of_device
from attnsuite.report import refuse_foreign_index
from attnsuite.store import Results

if TYPE_CHECKING:
    from attnsuite.commands.declared.run import Run


def run(options: Run) -> int:
    """Check the targets (all by default), time them in the profile `quick`, and write the tables.

    An interrupted run is resumed. Returns the exit status of both together.
    """
    device, leave_out = options.device, options.except_
    declarations = chosen(options.targets, leave_out, options.contract)
    refuse_broken(options.targets, declarations)
    check_name_of_device(device)
    check_jobs(options.jobs)
    single_threaded()
    from attnsuite.benchmark import Request as BenchRequest
    from attnsuite.conformance.divided import session_of
    from attnsuite.conformance.session import CheckRequest

    refuse_foreign_index(options.results)
    request = CheckRequest(device=device, isolate=options.isolate, strict=True)
    quick = BenchRequest(profile="quick", device=device)
    can_be_timed = any(not each.broken and registry.absent(each) is None for each in declarations)
    timed = campaign.with_baseline(campaign.with_workloads(declarations), leave_out) if can_be_timed else []
    try:
        benchmarks = campaign.benchmarks_of(timed, quick)
    except UsageError:  # the profile has no workload of these contracts
        benchmarks = []
    again = asked_again(declarations, request)
    session = session_of(request, len(declarations), options.jobs, looks=True)
    if options.dry_run:
        asked = sum(map(session.count, declarations))
        print(f"{asked} questions to {', '.join(each.full_name for each in declarations)}; then")
        if benchmarks:
            benching.say_plan(benchmarks)
        return 0
    facts = campaign.benchmark_facts(benchmarks, campaign.conformance_facts(declarations, again))
    new = campaign.new_run((*declarations, *timed), f"run on {device}", facts)
    with Results(options.results).open_run(new) as writer:
        say_how_it_starts(writer)
        with session, Shown(sum(map(session.count, declarations)), sys.stdout, again=again) as shown:
            outcomes = campaign.check(session, declarations, shown, writer)
        for benchmark in benchmarks:
            benchmark.earlier = campaign.by_implementation(outcomes)
        tables = sum(len(benchmark.tables()) for benchmark in benchmarks)
        with Shown(tables, sys.stdout, questions=False) as shown:
            measurements = campaign.bench(benchmarks, writer, shown)
        campaign.finish(writer, benchmarks, quick, declarations, session.ran, session.lacks)
    report(options.results, writer.run.machine.name)
    benching.say(benching.said_of_load(benchmarks), sys.stdout)
    alone = bool(options.targets) and len(declarations) == 1
    return max(status(outcomes, alone), benching.status(measurements))
