"""`attnsuite run`, the main job: check everything, time the quick profile, write results/, make the tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from suite import campaign, registry
from suite.commands import benching
from suite.commands.checking import asked_again, chosen, single_threaded, status
from suite.commands.reporting import report
from suite.commands.showing import Shown, say_how_it_starts
from suite.records import UsageError
from suite.store import Results


def run(
    targets: Sequence[str],
    device: str,
    results: Path,
    isolate: bool,
    leave_out: Sequence[str] = (),
    contract: str | None = None,
) -> int:
    """Check the targets (all by default), time them in the quick profile, write the tables; an interrupted run goes on.

    Returns the exit status of both together.
    """
    declarations = chosen(targets, leave_out, contract)
    single_threaded()
    from suite.conformance.session import Request, Session

    request = Request(device=device, isolate=isolate)
    quick = benching.Options(profile="quick", device=device).request()
    can_be_timed = any(not each.broken and registry.absent(each) is None for each in declarations)
    timed = campaign.with_baseline(campaign.with_workloads(declarations), leave_out) if can_be_timed else []
    try:
        benchmarks = campaign.benchmarks_of(timed, quick)
    except UsageError:  # the profile has nothing of them
        benchmarks = []
    again = asked_again(declarations, request)
    session = Session(request, several=len(declarations) > 1)
    facts = campaign.benchmark_facts(benchmarks, campaign.conformance_facts(declarations, again))
    new = campaign.new_run((*declarations, *timed), f"run on {device}", facts)
    with Results(results).open_run(new) as writer:
        say_how_it_starts(writer)
        with Shown(sum(map(session.count, declarations)), sys.stdout, again=again) as shown:
            outcomes = campaign.check(session, declarations, shown, writer)
        for benchmark in benchmarks:
            benchmark.earlier = campaign.by_implementation(outcomes)
        with Shown(sum(len(benchmark.tables()) for benchmark in benchmarks), sys.stdout) as shown:
            measurements = campaign.bench(benchmarks, writer, shown)
        writer.finish(
            whole=[declaration.full_name for declaration in declarations],
            workloads=campaign.workloads_of(benchmarks),
            profile=quick.timed_as or "",
            seconds=campaign.seconds_spent(benchmarks),
        )
    report(results, writer.run.machine.name)
    alone = bool(targets) and len(declarations) == 1
    return max(status(outcomes, alone), benching.status(measurements))
