"""`attnsuite run`, the main job: test what ships, time the quick profile, write results/, make the tables."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from attnsuite import registry
from attnsuite.cli import benching, campaign
from attnsuite.cli.checking import asked_again, chosen, refuse_broken, single_threaded, status, told
from attnsuite.cli.progress import Shown, say_how_it_starts
from attnsuite.cli.reporting import report
from attnsuite.machine.committed import differs
from attnsuite.model import Measurement, Outcome, UsageError
from attnsuite.model.options import check_jobs, check_name_of_device
from attnsuite.model.uncollected import importing
from attnsuite.registry import Declaration
from attnsuite.report import refuse_foreign_index
from attnsuite.results.store import Results, RunWriter
from attnsuite.worker.allocator import keep_freed_memory

if TYPE_CHECKING:
    from attnsuite.benchmark import Benchmark, Request
    from attnsuite.cli.declared.run import Run
    from attnsuite.conformance.session import Session


@dataclass(frozen=True)
class Job:
    """What a run does: the tests of its session, then its benchmarks."""

    declarations: Sequence[Declaration]
    session: Session
    benchmarks: Sequence[Benchmark]
    timed: Sequence[Declaration]
    quick: Request
    processes: int

    @property
    def sampled(self) -> dict[str, int]:
        """The implementations that are tested on a sample, with the number of their tests in all."""
        return dict(self.session.request.sampled)

    @property
    def tests(self) -> int:
        """How many tests there are."""
        return sum(map(self.session.count, self.declarations))


def run(options: Run) -> int:
    """Test the targets (all by default), time them in the profile `quick`, and write the tables.

    An interrupted run is resumed. Returns the exit status of both together.
    """
    declarations = chosen(options.targets, options.except_, options.contract)
    refuse_broken(options.targets, declarations)
    check_name_of_device(options.device)
    if options.jobs is not None:
        check_jobs(options.jobs)
    single_threaded()
    keep_freed_memory()
    refuse_foreign_index(options.results)
    with importing():
        job = _job(options, declarations)
    for line in _plan(job):
        print(line, flush=True)
    if options.dry_run:
        if job.benchmarks:
            benching.say_plan(job.benchmarks)
        return 0
    again = asked_again(declarations, job.session.request)
    facts = replace(campaign.conformance_facts(declarations, again), sampled=job.sampled)
    words = f"run on {options.device}{', in full' if options.full else ''}"
    sources = (*declarations, *job.timed)
    new = campaign.new_run(sources, words, campaign.benchmark_facts(job.benchmarks, facts))
    with Results(options.results).open_run(new) as writer:
        say_how_it_starts(writer)
        try:
            outcomes, measurements = _done(job, writer, again)
        except KeyboardInterrupt:
            kept = len(writer.done) + len(writer.measured)
            told(f"interrupted: {kept:,} result{'s are' if kept != 1 else ' is'} kept; run the same command to go on")
            raise
    benching.say(benching.said_of_load(job.benchmarks), sys.stdout)
    if differs(options.results):
        told(said_of_changes(options.results))
    report(options.results, writer.run.machine.name)
    alone = bool(options.targets) and len(declarations) == 1
    return max(status(outcomes, alone), benching.status(measurements))


def said_of_changes(folder: Path) -> str:
    """What to do about a folder of results in a checkout that a run has changed."""
    name = shlex.quote(str(folder))
    undo = f"git stash push --include-untracked -- {name}"
    return f"{name} now differs from the commit that is checked out; `{undo}` puts the changes aside"


def _job(options: Run, declarations: Sequence[Declaration]) -> Job:
    from attnsuite.benchmark import Request
    from attnsuite.conformance.divided import jobs_of, session_of
    from attnsuite.conformance.session import CheckRequest

    request = CheckRequest(device=options.device, isolate=options.isolate, strict=True)
    if not options.full:
        request = campaign.sampled(request, [each for each in declarations if each.compiles])
    quick = Request(profile="quick", device=options.device)
    can_be_timed = any(not each.broken and registry.absent(each) is None for each in declarations)
    named = campaign.with_workloads(declarations)
    timed = campaign.with_baseline(named, options.except_) if can_be_timed else []
    try:
        benchmarks = campaign.benchmarks_of(timed, quick)
    except UsageError:  # the profile has no workload of these contracts
        benchmarks = []
    processes = jobs_of(options.jobs, request, declarations)
    session = session_of(request, len(declarations), processes, looks=True)
    return Job(declarations, session, benchmarks, timed, quick, processes)


def _plan(job: Job) -> list[str]:
    """What will be tested and timed, what on a sample, and about how long that takes."""
    from attnsuite.cli.estimating import estimated

    count, members = job.tests, len(job.declarations)
    about = estimated(job.declarations, job.session, job.benchmarks, job.processes)
    lines = [f"{count:,} tests of {members} implementation{'s' * (members != 1)}: {about}"]
    if job.sampled:
        names = ", ".join(
            f"{each.full_name} ({job.session.count(each):,} of {job.sampled[each.full_name]:,})"
            for each in job.declarations
            if each.full_name in job.sampled
        )
        lines.append(f"tested on a sample, every feature once (--full tests everything): {names}")
    return lines


def _done(job: Job, writer: RunWriter, again: dict[str, list[str]]) -> tuple[list[Outcome], list[Measurement]]:
    """The outcomes and measurements of a run, which are written as they come."""
    with job.session, Shown(job.tests, sys.stdout, again=again, sampled=job.sampled) as shown:
        outcomes = campaign.check(job.session, job.declarations, shown, writer)
    for benchmark in job.benchmarks:
        benchmark.earlier = campaign.by_implementation(outcomes)
        benchmark.sampled = job.sampled
    tables = sum(len(benchmark.tables()) for benchmark in job.benchmarks)
    with Shown(tables, sys.stdout, questions=False) as shown:
        measurements = campaign.bench(job.benchmarks, writer, shown)
    whole = [each for each in job.declarations if each.full_name not in job.sampled]
    campaign.finish(writer, job.benchmarks, job.quick, whole, job.session.ran, job.session.lacks)
    return outcomes, measurements
