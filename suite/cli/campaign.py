"""Check, bench, write, resume: the one loop behind `attnsuite check`, `bench` and `run`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from msgspec import structs

from attnsuite import machine, registry
from attnsuite.contracts import contract as contract_named
from attnsuite.contracts import names as contract_names
from attnsuite.model import (
    EVERY_CASE,
    ContractFacts,
    Example,
    Explanation,
    Facts,
    Measurement,
    Operators,
    Outcome,
    Run,
    UsageError,
    WorkloadFacts,
)
from attnsuite.registry import Broken, Declaration, Loaded
from attnsuite.results.store import Results, RunWriter
from attnsuite.worker.sandbox import found_elsewhere, in_words

if TYPE_CHECKING:
    from attnsuite.benchmark import Benchmark, Request, Table
    from attnsuite.benchmark.kept import Kept
    from attnsuite.benchmark.kept_ceilings import KeptCeilings
    from attnsuite.cases import Contract
    from attnsuite.conformance.session import CheckRequest, Session


class Watcher(Protocol):
    """What shows or keeps results as they come: a terminal, a file of JSON rows."""

    def begins(self, what: str) -> None:
        """An implementation is about to be asked, or a table about to be timed."""

    def asked(self, outcome: Outcome) -> None:
        """A question has its outcome, from now or from the run that is resumed."""

    def introduced(self, line: str) -> None:
        """What an implementation was taken for, before anything else is said of it: its answers are still to come."""

    def checked(self, outcomes: Sequence[Outcome]) -> None:
        """All questions of an implementation have their outcomes."""

    def explained(self, explanation: Explanation) -> None:
        """Where an implementation fails, and the smallest input that shows it, beside its outcomes."""

    def timed(self, measurements: Sequence[Measurement], table: Table | None, baseline: str) -> None:
        """A table was timed. Without a table, the rows say why implementations cannot be timed at all.

        `baseline` is the implementation that others are compared with, without its contract.
        """

    def resumed(self, measurements: Sequence[Measurement]) -> None:
        """These are the rows of the run that is resumed."""


class Interrupted(KeyboardInterrupt):
    """A check was stopped while it asked: `outcomes` are those found until then, `__cause__` what stopped it."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        super().__init__()
        self.outcomes = list(outcomes)


def sampled(request: CheckRequest, declarations: Iterable[Declaration]) -> CheckRequest:
    """The request in which these implementations are tested on a sample: every feature and every dtype once."""
    from attnsuite.conformance.sampling import sample

    only, total = dict(request.only), dict(request.sampled)
    known = contract_names()
    for each in declarations:
        if each.broken or each.contract not in known:
            continue
        contract = contract_named(each.contract)
        tests = request.asked(contract)
        chosen = sample(each, contract, tests, _needs_of(contract), request.device.split(":")[0])
        only[each.full_name] = frozenset((case.name, dtype) for case, dtype in chosen)
        total[each.full_name] = len(tests)
    return replace(request, only=only, sampled=total)


def new_run(declarations: Sequence[Declaration], asked: str, facts: Facts) -> Run:
    """A run of these implementations on this machine."""
    sources = {each.full_name: registry.source_hash(each) for each in declarations}
    return structs.replace(machine.new_run(sources, machine.suite_hash(), asked), facts=facts)


def check(
    session: Session,
    declarations: Sequence[Declaration],
    watcher: Watcher,
    writer: RunWriter | None = None,
    loaded: Mapping[str, Loaded] = MappingProxyType({}),
) -> list[Outcome]:
    """Ask the questions that have no outcome yet, write each outcome as it comes, and return all.

    Implementations in `loaded`, by full name, are asked as they are, in this process. After an outcome that the session
    takes as decisive, nothing more is asked. Raises Interrupted after Ctrl-C, when what was found has been shown.
    """
    earlier = by_implementation(writer.recorded) if writer else {}
    outcomes: list[Outcome] = list(writer.recorded) if writer else []
    for declaration in declarations:
        name = declaration.full_name
        watcher.begins(name)
        found = list(earlier.get(name, ()))
        stopped: KeyboardInterrupt | None = None
        try:
            for outcome in found:
                watcher.asked(outcome)
            subject = loaded.get(name, declaration)
            with closing(_outcomes(session, subject, found, alone=len(declarations) == 1)) as asking:
                for outcome in _introduced(asking, session, name, watcher):
                    watcher.asked(outcome)
                    if writer and outcome.key in writer.done:
                        continue
                    if writer:
                        writer.write(outcome)
                    found.append(outcome)
                    outcomes.append(outcome)
        except KeyboardInterrupt as error:
            stopped = error
        if found or not stopped:
            watcher.checked(found)
        if stopped:
            raise Interrupted(outcomes) from stopped
        if name in session.explanations:
            watcher.explained(session.explanations[name])
        if session.is_decided(found):
            break
    return outcomes


def _outcomes(
    session: Session, subject: Declaration | Loaded, earlier: Sequence[Outcome], alone: bool
) -> Generator[Outcome]:
    """The outcomes of one implementation. Where only its import shows that it is no use, `alone` raises UsageError."""
    from attnsuite.conformance.session import unaskable

    try:
        yield from session.run(subject, earlier)
    except UsageError as error:
        declaration = subject.declaration if isinstance(subject, Loaded) else subject
        if alone:
            raise
        says, *_ = str(error).splitlines()
        yield unaskable(Broken(declaration, says), session.request.device, declaration)


def _introduced(asking: Iterator[Outcome], session: Session, name: str, watcher: Watcher) -> Iterator[Outcome]:
    """The outcomes as they come. Before the first of them it is said what the implementation was taken for."""
    first = next(asking, None)
    if signed := session.signed.get(name):
        watcher.introduced(signed)
    yield from () if first is None else (first,)
    yield from asking


def bench(benchmarks: Sequence[Benchmark], writer: RunWriter, watcher: Watcher) -> list[Measurement]:
    """Time the tables that have no rows yet, write each row as it comes, and return all."""
    again = set[tuple[str, ...]]().union(*(benchmark.again(writer.measured) for benchmark in benchmarks))
    found = [measurement for measurement in writer.recorded_measurements if measurement.key not in again]
    watcher.resumed(found)
    for benchmark in benchmarks:
        benchmark.tell, benchmark.introduce = watcher.begins, watcher.introduced
        for table, news in benchmark.run(writer.measured):
            for measurement in news:
                writer.write(measurement)
            found += news
            watcher.timed(news, table, benchmark.contract.baseline)
    return found


def by_implementation(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes of each implementation."""
    found: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        found[outcome.implementation].append(outcome)
    return found


def with_workloads(declarations: Sequence[Declaration]) -> list[Declaration]:
    """The implementations of contracts that have workloads, and those whose contract does not exist."""
    known = contract_names()
    return [each for each in declarations if each.contract not in known or contract_named(each.contract).workloads()]


def with_baseline(
    declarations: Sequence[Declaration], leave_out: Sequence[str], baseline: Declaration | None = None
) -> list[Declaration]:
    """The implementations and the baselines of their contracts, unless these are to be left out, or this `baseline`."""
    found = {declaration.full_name: declaration for declaration in declarations}
    if baseline is not None:
        return list((found | {baseline.full_name: baseline}).values())
    unwanted = {declaration.full_name for declaration in registry.find(leave_out)} if leave_out else set()
    registered = {declaration.full_name: declaration for declaration in registry.discover()}
    for name in dict.fromkeys(each.contract for each in declarations if each.contract in contract_names()):
        own = f"{name}/{contract_named(name).baseline}"
        if own in registered and own not in unwanted:
            found.setdefault(own, registered[own])
    return list(found.values())


def benchmarks_of(declarations: Sequence[Declaration], request: Request) -> list[Benchmark]:
    """A benchmark for each contract that has the workloads asked for. UsageError if none has."""
    from attnsuite.benchmark import Benchmark

    by_contract: dict[str, list[Declaration]] = defaultdict(list)
    for declaration in declarations:
        by_contract[declaration.contract].append(declaration)
    found, problems = [], []
    for name, members in by_contract.items():
        of = contract_named(name)
        benchmark = Benchmark(replace(of, baseline=request.baseline or of.baseline), members, request)
        try:
            benchmark.tables()  # raises for a workload that does not exist, before anything is started
            found.append(benchmark)
        except UsageError as error:
            problems.append(error)
    if problems and not found:
        raise problems[0]
    return found


def known_outcomes(results: Path, declarations: Sequence[Declaration], device: str) -> Mapping[str, list[Outcome]]:
    """The recorded outcomes of implementations that ship here, with these very sources, versions and machine."""
    store = Results(results)
    name = store.of(machine.here()).name
    if name not in store.machines():
        return {}
    recorded, suite, versions = store.read(name), machine.suite_hash(), machine.versions()
    hashes = {
        d.full_name: registry.source_hash(d) for d in declarations if d.module.startswith("attnsuite.implementations.")
    }
    found: dict[str, list[Outcome]] = defaultdict(list)
    for identity, outcome in recorded.rows:
        run, name = recorded.runs[identity], outcome.implementation
        alike = run.suite == suite and dict(run.versions) == versions
        if alike and outcome.device == device and name in hashes and run.sources.get(name) == hashes[name]:
            found[name].append(outcome)
    return found


def prepare(
    benchmarks: Sequence[Benchmark],
    results: Path,
    declarations: Sequence[Declaration],
    request: Request,
    believed: bool,
) -> None:
    """Give benchmarks what earlier runs found: what the user's cache folder has, only where it is to be `believed`."""
    for benchmark in benchmarks:
        benchmark.earlier = known_outcomes(results, declarations, request.device)
        benchmark.kept = kept_verdicts(request.device, believed)
        benchmark.kept_ceilings = kept_ceilings(request, believed)


def kept_verdicts(device: str, believed: bool) -> Kept:
    """Verdicts in the user's cache folder, which are only written where they are not to be `believed`."""
    from attnsuite.benchmark.kept import Kept

    return Kept(device, believed)


def kept_ceilings(request: Request, believed: bool) -> KeptCeilings:
    """Ceilings in the user's cache folder, which are only written where they are not to be `believed`.

    Nor are they by a profile, whose tables are published: it measures them itself.
    """
    from attnsuite.benchmark.kept_ceilings import KeptCeilings

    return KeptCeilings(request.device, believed and request.timed_as is None)


def conformance_facts(declarations: Sequence[Declaration], again: Mapping[str, Sequence[str]]) -> Facts:
    """What tables say beside outcomes; `again` has the words of a command line that name an implementation."""
    from attnsuite.conformance import findings

    contracts: dict[str, ContractFacts] = {}
    examples: list[Example] = []
    known: dict[str, str] = {}
    for name in dict.fromkeys(each.contract for each in declarations if each.contract in contract_names()):
        of = contract_named(name)
        needs = {case: tuple(words) for case, words in _needs_of(of).items()}
        why = {case.name: case.why for case in of.cases() if case.why}
        contracts[name] = ContractFacts(dict(of.features), needs, of.baseline, of.is_model, why)
        examples += of.examples()
        known |= {each.id: f"{each.says} {each.judgement}" for each in findings.load(of.findings, machine.versions())}
    return Facts(
        contracts=contracts,
        gaps={each.full_name: dict(each.lacks) for each in declarations if each.lacks},
        conventions={each.full_name: dict(each.conventions) for each in declarations if each.conventions},
        findings=known,
        examples=tuple(examples),
        again={name: tuple(words) for name, words in again.items() if name != EVERY_CASE},
        walls=_walls(declarations),
    )


def _needs_of(contract: Contract) -> Mapping[str, Collection[str]]:
    """What each case needs, as the user's cache folder has it or found now."""
    from attnsuite.benchmark.kept import needs_of

    return needs_of(contract.name, "", "", partial(_needs, contract))


def _needs(contract: Contract) -> dict[str, frozenset[str]]:
    """What each case needs, in whatever dtype."""
    return {case.name: contract.needs(case.calls(case.dtypes[0])) for case in contract.cases()}


def benchmark_facts(benchmarks: Sequence[Benchmark], facts: Facts | None = None) -> Facts:
    """What tables say beside measurements, added to other facts of the run."""
    facts = facts or Facts()
    contracts = [contract_named(benchmark.contract.name) for benchmark in benchmarks]
    timed = {of.name: ContractFacts(baseline=of.baseline, is_model=of.is_model) for of in contracts}
    chosen = {benchmark.contract.name: benchmark.request.baseline for benchmark in benchmarks}
    workloads = {
        benchmark.contract.name: {
            each.name: WorkloadFacts(each.group, each.shape, each.why, each.length) for each in benchmark.workloads()
        }
        for benchmark in benchmarks
    }
    from attnsuite.benchmark.implementation import declaration_of

    walls = _walls([declaration_of(each) for of in benchmarks for each in of.implementations])
    return structs.replace(
        facts,
        contracts={**timed, **facts.contracts},
        workloads=workloads,
        baselines={name: baseline for name, baseline in chosen.items() if baseline},
        walls={**walls, **facts.walls},
    )


def _walls(declarations: Sequence[Declaration]) -> dict[str, str]:
    """What keeps each implementation that does not ship here from what is not its own."""
    strangers = [each.full_name for each in declarations if not each.shipped]
    return dict.fromkeys(strangers, in_words(found_elsewhere())) if strangers else {}


def finish(
    writer: RunWriter,
    benchmarks: Sequence[Benchmark] = (),
    request: Request | None = None,
    checked: Sequence[Declaration] = (),
    operators: Mapping[str, Operators] = MappingProxyType({}),
    lacks: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> None:
    """Close the run and note where its time went. `checked` were asked every case, so their older rows are dropped;
    `operators` are those that strangers ran, and `lacks` what imports have told of gaps.
    """
    seconds: dict[str, float] = defaultdict(float)
    for benchmark in benchmarks:
        for activity, spent in benchmark.seconds.items():
            seconds[activity] += round(spent, 3)
    writer.finish(
        whole=[declaration.full_name for declaration in checked],
        workloads={of.contract.name: [workload.name for workload in of.workloads()] for of in benchmarks},
        profile=(request.timed_as or "") if request else "",
        seconds=dict(seconds),
        operators=operators,
        gaps=lacks,
    )
