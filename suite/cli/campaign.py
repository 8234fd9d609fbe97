"""The loops behind `attnsuite check`, `bench` and `run`: test, time, write, resume; and the facts of a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import structs

from attnsuite import machine, registry
from attnsuite.cli.progress import Display
from attnsuite.cli.targets import Hint
from attnsuite.contracts import contract as contract_named
from attnsuite.contracts import names as contract_names
from attnsuite.model import (
    EVERY_CASE,
    ContractFacts,
    Facts,
    FindingFacts,
    Measurement,
    Outcome,
    Run,
    Shard,
    UsageError,
    WorkloadFacts,
)
from attnsuite.registry import Broken, Declaration, Loaded
from attnsuite.results import RunWriter, finished_shard

if TYPE_CHECKING:
    from attnsuite.benchmark.request import Request
    from attnsuite.benchmark.series import Benchmark
    from attnsuite.cases import Contract
    from attnsuite.conformance.request import CheckRequest
    from attnsuite.conformance.session import Session

T = TypeVar("T")


class Interrupted(KeyboardInterrupt):
    """A check was stopped. `outcomes` are those until then, `__cause__` is the signal."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        super().__init__()
        self.outcomes = list(outcomes)


def request_of(kind: type[T], options: Any, **more: Any) -> T:
    """A request of another package, filled from options of the same names."""
    names = {field.name for field in fields(kind)} & {field.name for field in fields(options)}  # type: ignore[arg-type]
    return kind(**{name: getattr(options, name) for name in names - more.keys()}, **more)


def new_run(declarations: Iterable[Declaration], request: str, facts: Facts) -> Run:
    """A run of these implementations on this machine."""
    sources = {declaration.full_name: registry.source_hash(declaration) for declaration in declarations}
    return structs.replace(machine.new_run(sources, machine.suite_hash(), request), facts=facts)


def sampled(request: CheckRequest, declarations: Iterable[Declaration]) -> CheckRequest:
    """The request in which these implementations are tested on a sample: every feature and every dtype once."""
    from attnsuite.conformance.request import sample

    only, total = dict(request.only), dict(request.sampled)
    for declaration in declarations:
        if declaration.broken or declaration.contract not in contract_names():
            continue
        contract = contract_named(declaration.contract)
        tests = request.tests(contract)
        chosen = sample(declaration, contract, tests, _needs_of(contract), request.device.split(":")[0])
        only[declaration.full_name] = frozenset((case.name, dtype) for case, dtype in chosen)
        total[declaration.full_name] = len(tests)
    return replace(request, only=only, sampled=total)


def contracts_of(declarations: Iterable[Declaration]) -> list[str]:
    """The names of the contracts of these implementations, without those that do not exist."""
    names = dict.fromkeys(declaration.contract for declaration in declarations)
    return [name for name in names if name in contract_names()]


def check(
    session: Session,
    declarations: Sequence[Declaration],
    display: Display,
    writer: RunWriter | None = None,
    loaded: Mapping[str, Loaded] = MappingProxyType({}),
    refused: dict[str, str] | None = None,
) -> list[Outcome]:
    """Run the tests that have no outcome yet, write each outcome at once, and return all.

    Implementations in `loaded`, by full name, run in this process. `refused` receives the reason for each that cannot
    be tested. After an outcome that decides the session, no more tests run. After Ctrl-C the outcomes are displayed and
    Interrupted is raised.
    """
    outcomes = dict(writer.stored(Outcome)) if writer else {}
    earlier = by_implementation(list(outcomes.values()))
    refused = {} if refused is None else refused
    for declaration in declarations:
        name = declaration.full_name
        display.begin(name)
        own, stopped = {outcome.key: outcome for outcome in earlier.get(name, ())}, None
        try:
            for outcome in own.values():
                display.count(outcome)
            known, alone = list(own.values()), len(declarations) == 1
            tests = _outcomes(session, loaded.get(name, declaration), known, refused, alone)
            with closing(tests) as running:
                for outcome in display.introduced(running, session.signatures, name):
                    if outcome.key not in own:
                        display.count(outcome)
                    if writer and own.get(outcome.key) != outcome:  # a failure comes again with its name
                        writer.write(outcome)
                    own[outcome.key] = outcomes[outcome.key] = outcome
        except KeyboardInterrupt as error:
            stopped = error
        if own or not stopped:
            display.show_outcomes(list(own.values()))
        if stopped:
            raise Interrupted(list(outcomes.values())) from stopped
        if name in session.explanations:
            display.explain(session.explanations[name])
        if session.is_decided(own.values()):
            break
    return list(outcomes.values())


def _outcomes(
    session: Session, subject: Declaration | Loaded, earlier: Sequence[Outcome], refused: dict[str, str], alone: bool
) -> Generator[Outcome]:
    """The outcomes of one implementation. With `alone`, raises UsageError if its import shows that it cannot run."""
    from attnsuite.conformance.session import cannot_run

    declaration = subject.declaration if isinstance(subject, Loaded) else subject
    if declaration.broken:
        refused[declaration.full_name] = declaration.broken
    try:
        yield from session.run(subject, earlier)
    except UsageError as error:
        if alone:
            raise
        reason = str(error).partition("\n")[0].removeprefix(f"{declaration.full_name}: ").rstrip(":")
        refused[declaration.full_name] = reason
        yield cannot_run(Broken(declaration, reason), session.request.device, declaration)


def bench(benchmarks: Sequence[Benchmark], writer: RunWriter, display: Display) -> list[Measurement]:
    """Time the tables that have no rows yet, write each row at once, and return all rows."""
    stored = writer.stored(Measurement)
    again = set[tuple[str, ...]]().union(*(benchmark.keys_to_measure(stored.keys()) for benchmark in benchmarks))
    rows = [measurement for measurement in stored.values() if measurement.key not in again]
    for row in rows:
        display.row(row)
    for benchmark in benchmarks:
        benchmark.progress, benchmark.announce = display.begin, display.introduce
        for table, new in benchmark.run(stored.keys()):
            for measurement in new:
                writer.write(measurement)
            rows += new
            display.show_table(new, table, benchmark.contract.baseline)
    return rows


def by_implementation(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes of each implementation."""
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.implementation].append(outcome)
    return groups


def with_workloads(declarations: Iterable[Declaration]) -> list[Declaration]:
    """The implementations of contracts that have workloads, and those whose contract does not exist."""
    without = {name for name in contract_names() if not contract_named(name).workloads()}
    return [declaration for declaration in declarations if declaration.contract not in without]


def with_baseline(
    declarations: Sequence[Declaration], skipped: Sequence[str], baseline: Declaration | None = None
) -> list[Declaration]:
    """The implementations and this `baseline`, else those of their contracts, unless these are skipped."""
    wanted = {declaration.full_name: declaration for declaration in declarations}
    if baseline is not None:
        return list((wanted | {baseline.full_name: baseline}).values())
    unwanted = {declaration.full_name for declaration in registry.find(skipped)} if skipped else set()
    registered = {declaration.full_name: declaration for declaration in registry.discover()}
    for name in contracts_of(declarations):
        own = f"{name}/{contract_named(name).baseline}"
        if own in registered and own not in unwanted:
            wanted.setdefault(own, registered[own])
    return list(wanted.values())


def benchmarks_of(declarations: Sequence[Declaration], request: Request) -> list[Benchmark]:
    """A benchmark for each contract that has the workloads of the request. UsageError if none has."""
    from attnsuite.benchmark.series import Benchmark

    by_contract: dict[str, list[Declaration]] = defaultdict(list)
    for declaration in declarations:
        by_contract[declaration.contract].append(declaration)
    benchmarks, problems = [], []
    for name, members in by_contract.items():
        contract = contract_named(name)
        contract = replace(contract, baseline=request.baseline or contract.baseline)
        benchmark = Benchmark(contract, members, request)
        try:
            benchmark.tables()  # raises for a workload that does not exist, before anything is started
            benchmarks.append(benchmark)
        except UsageError as error:
            problems.append(error)
    if problems and not benchmarks:
        raise problems[0]
    return benchmarks


def conformance_facts(declarations: Sequence[Declaration], again: Mapping[str, Sequence[str]]) -> Facts:
    """The facts that pages print with outcomes; `again` has the words of a command line that name an implementation."""
    from attnsuite.conformance.known import known_bugs

    contracts: dict[str, ContractFacts] = {}
    known: dict[str, FindingFacts] = {}
    for name in contracts_of(declarations):
        contract = contract_named(name)
        why = {case.name: case.why for case in contract.cases() if case.why}
        contracts[name] = ContractFacts(contract.baseline, why)
        bugs = known_bugs(contract.known_bugs, machine.versions())
        known |= {
            bug.id: FindingFacts(
                f"{bug.says} {bug.judgement}",
                " ".join(bug.implementations),
                "; ".join(f"{library} {versions}" for library, versions in bug.versions.items()),
                bug.reproduction,
                bug.upstream,
            )
            for bug in bugs
        }
    return Facts(
        contracts=contracts,
        findings=known,
        again={name: tuple(words) for name, words in again.items() if name != EVERY_CASE},
    )


def _needs_of(contract: Contract) -> Mapping[str, Collection[str]]:
    """The features that each case needs, from the user's cache or determined now."""
    from attnsuite.benchmark.verdict_cache import needs_of

    def needs() -> dict[str, frozenset[str]]:
        return {case.name: contract.needs(case.calls(case.dtypes[0])) for case in contract.cases()}

    return needs_of(contract.name, "", "", needs)


def benchmark_facts(benchmarks: Sequence[Benchmark], facts: Facts | None = None) -> Facts:
    """The facts that pages print with measurements, added to other facts of the run."""
    facts = facts or Facts()
    contracts = [contract_named(benchmark.contract.name) for benchmark in benchmarks]
    timed = {item.name: ContractFacts(item.baseline) for item in contracts}
    chosen = {timing.contract.name: timing.request.baseline for timing in benchmarks if timing.request.baseline}
    workloads = {
        benchmark.contract.name: {
            item.name: WorkloadFacts(item.group, item.shape, item.why, item.length) for item in benchmark.workloads()
        }
        for benchmark in benchmarks
    }
    return structs.replace(
        facts,
        contracts={**timed, **facts.contracts},
        workloads=workloads,
        baselines=chosen,
    )


def finish_checked(writer: RunWriter, whole: Iterable[Declaration]) -> None:
    """Finish the run. All tests of `whole` ran, so that their older rows no longer count."""
    names = tuple(declaration.full_name for declaration in whole)
    writer.finish(structs.replace(writer.run.facts, whole=names or writer.run.facts.whole))


Row = TypeVar("Row", Outcome, Measurement)


def results_folder(results: Path, shard: Shard | None) -> Path:
    """The folder of a shard, or `results` without one. Shards have folders of their own, so all can run at once."""
    return results / shard.folder if shard else results


def complete_shard(results: Path | None, run: Run, kind: type[Row], hint: Hint) -> list[Row] | None:
    """The rows of a complete shard; None for an incomplete one, and without a shard."""
    if results is None or not run.shard:
        return None
    folder = results_folder(results, Shard.read(run.shard))
    rows = finished_shard(folder, run)
    if rows is None:
        return None
    stored_rows = [row for row in rows if isinstance(row, kind)]
    hint(f"shard {run.shard} is already complete in {folder}: {len(stored_rows)} rows, nothing runs again")
    return stored_rows


def empty_shard(shard: Shard | None, what: str, units: int) -> str:
    """The hint that none of the `units` fell into a shard; empty without a shard.

    An empty shard is no failure, because the other shards run everything. Its CI job must pass, and merging needs its
    empty run.
    """
    if shard is None:
        return ""
    few = f" of {units:,}" if units < shard.count else ""
    return f"shard {shard} has nothing to run: {what} are divided by a hash, and none{few} fell into it"
