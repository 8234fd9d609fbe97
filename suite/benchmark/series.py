"""A benchmark: implementations of one contract, timed table by table. Finished tables are skipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import inf
from random import Random, SystemRandom
from statistics import median
from typing import Any

import torch
from msgspec import structs

from attnsuite import registry
from attnsuite.benchmark.busy import Load
from attnsuite.benchmark.entry import Entry
from attnsuite.benchmark.gate import Gate
from attnsuite.benchmark.measure.messages import Energy, NoResult
from attnsuite.benchmark.participant import Participant, all_ready, begun
from attnsuite.benchmark.processes import prewarm_benchmark
from attnsuite.benchmark.request import Implementation, Request, Table, declaration_of, with_gradients
from attnsuite.benchmark.table import MemoryResult, TimedTable, Timing, measured
from attnsuite.benchmark.verdict_cache import VerdictCache
from attnsuite.cases import Contract, Workload
from attnsuite.contracts import contract as contract_named
from attnsuite.model import EVERY_CASE, Measurement, Outcome, Status, UsageError
from attnsuite.model.limits import TIME_LIMIT
from attnsuite.registry import Loaded

RATE_SLACK = 2.5
"""The largest credible rate, as a multiple of the ceiling of the same run. PyTorch's product may use half of a
processor's vector width (MKL on AMD: AVX2, while ONNX Runtime reaches 1.75 times as much with AVX-512). The half
second of the ceiling may have been a quarter slower than the rest of the run."""
AGED_SLACK = 3.0
"""The same for a ceiling of an earlier run, in which the machine may have been busy."""
BOUNDED_BY_PRODUCTS = ("float64", "float32")
"""The dtypes in which a claim is compared with the rate of a matrix product, which no kernel that does the work
exceeds by far. In 16-bit types one may: on processors without such products a kernel that widens its inputs first is
faster."""
MEASURED_AGAIN = 2
"""How often ceilings are measured again if a row exceeds them: other work that lasted seconds has ended by then."""

Key = tuple[str, ...]
"""The identity of a row: see `Measurement.key`."""


@dataclass
class Benchmark:
    """The benchmark of several implementations of one contract.

    `earlier` are valid outcomes, by implementation. `ceilings` are the rates that the machine reaches, by dtype and
    threads; missing ones are measured.
    """

    contract: Contract
    implementations: Sequence[Implementation]
    request: Request
    earlier: Mapping[str, Sequence[Outcome]] = field(default_factory=dict)
    sampled: Collection[str] = ()
    """The implementations whose `earlier` outcomes are a sample that suffices."""
    cache: VerdictCache | None = None
    """Verdicts of earlier runs."""
    random: Random = field(default_factory=SystemRandom)
    """The source of random choices that no submission may predict."""
    progress: Callable[[str], None] = lambda doing: None
    """Reports progress."""
    announce: Callable[[str], None] = lambda line: None
    """Reports the signature that was detected for an implementation, if it is not the contract's own."""
    ceilings: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)
    busy: list[str] = field(default_factory=list)
    """The load during each table that was timed on a busy machine."""

    def __post_init__(self) -> None:
        self._measured_here: set[tuple[str, int]] = set()

    def tables(self) -> list[Table]:
        """The tables in order. Raises UsageError for an empty selection."""
        return self.request.tables(self.contract)

    def workloads(self) -> list[Workload]:
        """All workloads of the contract, and those of the request's shapes."""
        own = list(self.contract.workloads())
        return [
            *own,
            *(workload for workload in dict.fromkeys(table.workload for table in self.tables()) if workload not in own),
        ]

    def run(self, done: Collection[Key] = ()) -> Iterator[tuple[Table | None, list[Measurement]]]:
        """Yield the rows of each table, after those about all workloads, without tables whose rows are all `done`."""
        todo = self._todo(done)
        timing: Timing | None = None
        about_all: set[str] = set()
        for threads, tables in groupby(todo, key=lambda table: table.threads):
            with ExitStack() as stack:
                started = self._started(threads, stack)
                if timing is None:
                    gate = self._gate(todo)
                    timing = Timing(self.contract, self.request, gate.refusal, self.random)
                settings = self._settings(threads)
                able, failed, reference = all_ready(started, self.contract, self.implementations, stack, **settings)
                rows = [self._about_all(name, reason) for name, reason in failed.items() if name not in about_all]
                about_all |= failed.keys()
                if rows:
                    yield None, [row for row in rows if row.key not in done]
                for table in tables:
                    yield table, self._timed(table, able, reference, timing)

    def keys_to_measure(self, done: Collection[Key]) -> set[Key]:
        """The keys of the rows that `run` will yield; a table with one missing row is measured as a whole."""
        return {key for table in self._todo(done) for key in self._keys(table)}

    def _todo(self, done: Collection[Key]) -> list[Table]:
        about_all = {key[0] for key in done if key[1] == EVERY_CASE}
        return [
            table for table in self.tables() if not all(key in done or key[0] in about_all for key in self._keys(table))
        ]

    def _keys(self, table: Table) -> list[Key]:
        return [
            self._row(table, declaration_of(implementation).full_name).key for implementation in self.implementations
        ]

    def _gate(self, todo: Sequence[Table]) -> Gate:
        """The gate, after it has tested all implementations on the cases that the tables need."""
        threads = max((table.threads for table in todo), default=0)
        contract, limit = self.contract, self.request.time_limit
        gate = Gate(contract, self.request.device, limit, self.earlier, self.cache, threads, self.sampled)
        self.progress(f"conformance of {contract.name}")
        uses = {(table.dtype, table.features(contract)) for table in todo}
        gate.test([implementation for implementation in self.implementations if not _is_absent(implementation)], uses)
        for line in filter(None, (*(gate.signatures[name] for name in sorted(gate.signatures)), gate.summary)):
            self.announce(line)
        return gate

    def _settings(self, threads: int) -> dict[str, Any]:
        """The settings of all participants on `threads` threads."""
        return {"device": self.request.device, "threads": threads, "time_limit": self.request.time_limit}

    def _started(self, threads: int, stack: ExitStack) -> list[Participant]:
        """All implementations as participants, which begin to import while the gate looks up known outcomes."""
        self.progress("starting processes")
        if self.request.kind == "cpu":
            prewarm_benchmark(threads, [self.contract.name], self.request.in_processes, with_gradients(self.tables()))
        settings = {"processes": self.request.in_processes, **self._settings(threads)}
        return begun(self.implementations, stack, **settings)

    def _timed(
        self, table: Table, participants: Sequence[Participant], reference: Participant | None, timing: Timing
    ) -> list[Measurement]:
        """The rows of a table, in the order of the participants."""
        self.progress(f"{table.workload.name} {table.dtype} {table.direction}")
        timed = timing.time(table, participants, reference)
        self.busy += filter(None, [timed.load.note(table.threads)])
        able = [entry for entry in timed.entries if not entry.failed]
        rows = {name: self._row(table, name, failed) for name, failed in timed.failed.items()}
        rows |= {entry.name: self._row(table, entry.name, entry.failed) for entry in timed.entries}
        if able:
            if self._key(table) not in self.ceilings and self._measures_ceilings:
                self._measure_ceilings(table, able)
            memories = timing.measure_memory(table, able)
            rows |= {entry.name: self._measured(entry, table, timed, memories[entry.name]) for entry in able}
        if self.request.kind != "cpu":
            for entry in timed.entries:
                entry.participant.release()
        ordered = self._with_ceilings(table, [rows[participant.name] for participant in participants], able)
        return [self._believed(table, row, timed.load) for row in ordered]

    def _measured(self, entry: Entry, table: Table, timed: TimedTable, memory: MemoryResult) -> Measurement:
        """The row of an entry that did not fail."""
        own = table.under(entry.participant.declaration)
        notes = [_other_work(table, own)]
        return structs.replace(
            measured(self._row(table, entry.name), entry, memory, notes),
            work=dict(own.workload.work(table.dtype, table.direction)),
            ceilings=self.ceilings.get(self._key(table), {}),
            telemetry=self._telemetry(entry, timed) if self.request.kind == "cuda" else {},
        )

    @property
    def _measures_ceilings(self) -> bool:
        """Whether ceilings are measured, which takes seconds: not for a single submission."""
        timed = [declaration_of(declaration) for declaration in self.implementations]
        submitted = [declaration for declaration in timed if declaration.name != self.contract.baseline]
        return len(submitted) > 1 or all(declaration.shipped for declaration in timed)

    def _measure_ceilings(self, table: Table, able: Sequence[Entry]) -> None:
        """Measure the machine's ceilings in the table's dtype, on its threads; a higher earlier value stays.

        A shipped implementation's process measures them if possible: a submission may tamper with its own process.
        """
        participants = [entry.participant for entry in able]
        trusted = next((participant for participant in participants if participant.shipped), participants[0])
        reply = trusted.ceilings(table.dtype)
        if not isinstance(reply, NoResult):
            earlier = self.ceilings.get(self._key(table), {})
            self.ceilings[self._key(table)] = {n: max(rate, earlier.get(n, 0.0)) for n, rate in reply.ceilings.items()}
            self._measured_here.add(self._key(table))

    def _with_ceilings(self, table: Table, rows: list[Measurement], able: Sequence[Entry]) -> list[Measurement]:
        """The rows, with ceilings measured again if a row exceeds one of this run.

        Other work may have kept the machine busy while they were measured.
        """
        key = self._key(table)
        for _ in range(MEASURED_AGAIN):
            if key not in self._measured_here or not any(_is_beyond(row, RATE_SLACK) for row in rows):
                break
            self._measure_ceilings(table, able)
            rows = [structs.replace(row, ceilings=self.ceilings[key]) if row.seconds else row for row in rows]
        return rows

    def _believed(self, table: Table, row: Measurement, load: Load) -> Measurement:
        """The row, or its refusal if it claims a higher rate than this machine can reach.

        On a busy machine the ceiling may be too low: a row that this explains gets no time, but is not refused.
        """
        if not _is_beyond(row, AGED_SLACK):
            return row
        reached, rate = row.ceilings["flops"], row.work["attended"] / median(row.seconds)
        claims = f"it claims {rate:.3g} FLOPs per second; a matrix product reaches {reached:.3g}"
        if _is_beyond(row, AGED_SLACK * load.slowdown(table.threads)):
            return self._row(table, row.implementation, NoResult(Status.REFUSED, claims))
        reason = f"not bounded: {load.note(table.threads)}: {claims}"
        return self._row(table, row.implementation, NoResult(Status.UNSUPPORTED, reason))

    def _telemetry(self, entry: Entry, timed: TimedTable) -> dict[str, Any]:
        """The device's telemetry of calls in a row, joules of one call included, and of all rounds."""
        in_rounds: dict[str, Any] = {}
        for name in ("sm_clock", "throttle"):
            in_rounds[f"{name}_in_rounds"] = timed.telemetry.get(name)
            if reason := timed.telemetry.get(f"{name}_absent"):
                in_rounds[f"{name}_in_rounds_absent"] = reason
        reply = entry.participant.energy(entry.prepared.calls, median(entry.seconds))
        if isinstance(reply, Energy):
            return {**reply.telemetry, **in_rounds}
        return {"joules": None, "joules_absent": str(reply), **in_rounds}

    def _row(self, table: Table, name: str, failed: NoResult | None = None) -> Measurement:
        return table.row(name, self.contract.name, self.request.device, failed)

    def _about_all(self, name: str, failed: NoResult) -> Measurement:
        """A row about every workload."""
        key = name, self.contract.name, EVERY_CASE, EVERY_CASE, self.request.device, 0, EVERY_CASE, EVERY_CASE
        return Measurement(*key, failed.status, failed.detail)

    @staticmethod
    def _key(table: Table) -> tuple[str, int]:
        return table.dtype, table.threads


def bench(
    function: Callable[..., Any] | Iterable[Callable[..., Any]],
    contract: str = "attention",
    workloads: str | Iterable[str] | None = None,
    device: str | torch.device = "cpu",
    *,
    profile: str | None = None,
    backward: bool = False,
    cache: str | None = None,
    threads: int | Iterable[int] = (),
    budget: float | None = None,
    time_limit: float = TIME_LIMIT,
    step: bool = False,
) -> list[Measurement]:
    """Time a function, or several against each other, on a contract's workloads; returns a Measurement for each.

    `workloads` are names, groups or patterns (`"ladder"`), by default those of the profile `quick`. Each function is
    timed in a process of its own, which has to import it. `cache` is hot or cold, `threads` are thread counts on a CPU,
    `budget` is in seconds of timed calls for each in each table, `time_limit` in seconds for a reply. `backward` times
    gradients too, `step` training steps, of models and blocks that have one. A function that fails the contract's cases
    for a workload is `refused`. Functions of one name get numbers: `attention`, `attention-2`. Raises UsageError for an
    unknown contract, workload, profile or device, and for a function that no other process can import: a lambda, a
    closure, a notebook's.
    """
    target: object = function
    functions = [function] if callable(function) else list(target) if isinstance(target, Iterable) else []
    if not functions or not all(map(callable, functions)):
        kind = type(function).__name__ if functions or not isinstance(target, Iterable) else "none at all"
        raise UsageError(f"attnsuite.bench takes a function or several, not {kind}")
    patterns = (workloads,) if isinstance(workloads, str) else tuple(workloads or ())
    counts = (threads,) if isinstance(threads, int) else tuple(threads)
    request = Request(patterns, profile, str(device), backward, cache, counts, time_limit, budget, step)
    implementations = with_unique_names([registry.from_function(member, contract) for member in functions])
    for declaration in map(declaration_of, implementations):
        if not (declaration.module or declaration.file):
            raise UsageError(f"{declaration.name} cannot be timed: no other process can import it; write it to a file")
    benchmark = Benchmark(contract_named(contract), implementations, request)
    return [row for _, rows in benchmark.run() for row in rows]


def with_unique_names(implementations: Iterable[Loaded]) -> list[Loaded]:
    """The implementations; further ones of the same name get a number: `attention-2`."""
    seen: Counter[str] = Counter()
    named = []
    for implementation in implementations:
        name = implementation.declaration.name
        seen[name] += 1
        unique = name if seen[name] == 1 else f"{name}-{seen[name]}"
        named.append(replace(implementation, declaration=replace(implementation.declaration, name=unique)))
    return named


def _is_beyond(row: Measurement, slack: float) -> bool:
    """Whether a row's rate exceeds that of a matrix product more than `slack` times."""
    reached = row.ceilings.get("flops", inf) * slack
    exceeds = bool(row.seconds) and row.work.get("attended", 0.0) > median(row.seconds) * reached
    return row.dtype in BOUNDED_BY_PRODUCTS and exceeds


def _other_work(table: Table, declared: Table) -> str:
    """A row's note if an implementation's conventions need other work than the contract's own; else empty."""
    usual, own = (either.workload.work(table.dtype, table.direction)["attended"] for either in (table, declared))
    return "" if usual == own else f"its declared conventions need {own / max(usual, 1):.3g} times the work"


def _is_absent(implementation: Implementation) -> bool:
    declaration = declaration_of(implementation)
    return bool(declaration.broken) or registry.missing_library(declaration) is not None
