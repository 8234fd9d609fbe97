"""A benchmark: implementations of one contract, timed table by table. What is done already is not done again."""

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
from attnsuite.benchmark.participant import Participant, all_ready, participant
from attnsuite.benchmark.processes import prewarm_benchmark
from attnsuite.benchmark.request import Implementation, Request, Table, declaration_of, memory_limit, with_gradients
from attnsuite.benchmark.table import TimedTable, Timing, Weight, measured
from attnsuite.benchmark.verdict_cache import VerdictCache
from attnsuite.cases import Contract, Workload
from attnsuite.contracts import contract as contract_named
from attnsuite.model import EVERY_CASE, Measurement, Outcome, Status, UsageError
from attnsuite.model.limits import TIME_LIMIT
from attnsuite.registry import Loaded

RATE_SLACK = 2.5
"""The largest rate, as a multiple of the ceiling of the same run. PyTorch's product may use half of a processor's
vector width (MKL on AMD: AVX2, where ONNX Runtime uses AVX-512 and reaches 1.75 times as much), and the half second
in which the ceiling was measured may have been a quarter slower than the rest of the run."""
AGED_SLACK = 3.0
"""The same for a ceiling of an earlier run, in which the machine may have been busy."""
HELD_TO_PRODUCTS = ("float64", "float32")
"""The dtypes in which a claim is compared with the rate of a matrix product, which no honest kernel exceeds by far.
Processors without products of half types multiply them more slowly than a kernel does that widens its inputs first."""
MEASURED_AGAIN = 2
"""How often ceilings are measured again where a row lies above them: other work that lasted seconds is over by then."""

Key = tuple[str, ...]
"""The identity of a row: see `Measurement.key`."""


@dataclass
class Benchmark:
    """The benchmark of several implementations of one contract.

    `earlier` are valid outcomes, by implementation. `ceilings` is what the machine reaches, by dtype and threads: it is
    measured where it is not given.
    """

    contract: Contract
    implementations: Sequence[Implementation]
    request: Request
    earlier: Mapping[str, Sequence[Outcome]] = field(default_factory=dict)
    sampled: Collection[str] = ()
    """The implementations whose `earlier` outcomes are a sample, and suffice."""
    cache: VerdictCache | None = None
    """Verdicts of earlier runs."""
    random: Random = field(default_factory=SystemRandom)
    """Draws what no submission may foresee, so it is not computed from earlier draws."""
    progress: Callable[[str], None] = lambda doing: None
    """Reports progress."""
    announce: Callable[[str], None] = lambda line: None
    """Reports the signature that an implementation was taken to have, where that is not the contract's own."""
    ceilings: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)
    busy: list[str] = field(default_factory=list)
    """For each table that was timed while the machine was busy, how busy it was."""

    def __post_init__(self) -> None:
        self._reached_here: set[tuple[str, int]] = set()

    def tables(self) -> list[Table]:
        """The tables in order. UsageError where there is none."""
        return self.request.tables(self.contract)

    def workloads(self) -> list[Workload]:
        """All workloads of the contract, and those that the request makes itself."""
        own = list(self.contract.workloads())
        return [*own, *(each for each in dict.fromkeys(table.workload for table in self.tables()) if each not in own)]

    def run(self, done: Collection[Key] = ()) -> Iterator[tuple[Table | None, list[Measurement]]]:
        """Yield the rows of each table, and first those about all workloads. Tables that are `done` are left out.

        A table is measured again as a whole when one of its rows is not among the keys that are `done`.
        """
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
                able, failed, beside = all_ready(started, self.contract, self.implementations, stack, **settings)
                rows = [self._about_all(name, why) for name, why in failed.items() if name not in about_all]
                about_all |= failed.keys()
                if rows:
                    yield None, [row for row in rows if row.key not in done]
                for table in tables:
                    yield table, self._timed(table, able, beside, timing)

    def keys_to_measure(self, done: Collection[Key]) -> set[Key]:
        """The keys of the rows that `run` will yield, of what is done as well: a table is measured as a whole."""
        return {key for table in self._todo(done) for key in self._keys(table)}

    def _todo(self, done: Collection[Key]) -> list[Table]:
        about_all = {key[0] for key in done if key[1] == EVERY_CASE}
        return [
            table for table in self.tables() if not all(key in done or key[0] in about_all for key in self._keys(table))
        ]

    def _keys(self, table: Table) -> list[Key]:
        return [self._row(table, declaration_of(each).full_name).key for each in self.implementations]

    def _gate(self, todo: Sequence[Table]) -> Gate:
        """The gate, after it has tested all implementations on what the tables use."""
        threads = max((table.threads for table in todo), default=0)
        request, of = self.request, self.contract
        gate = Gate(of, request.device, request.time_limit, self.earlier, self.cache, threads, self.sampled)
        self.progress(f"conformance of {of.name}")
        uses = {(table.dtype, table.features(of)) for table in todo}
        gate.test([each for each in self.implementations if not _is_absent(each)], uses)
        for line in filter(None, (*(gate.signed[name] for name in sorted(gate.signed)), gate.summary)):
            self.announce(line)
        return gate

    def _settings(self, threads: int) -> dict[str, Any]:
        """The settings of all participants on so many threads."""
        return {
            "device": self.request.device,
            "threads": threads,
            "time_limit": self.request.time_limit,
            "gradients": with_gradients(self.tables()),
        }

    def _started(self, threads: int, stack: ExitStack) -> list[Participant]:
        """All implementations as participants, which begin to import while the gate looks for known outcomes.

        On a GPU they begin later: each would take memory from those that are tested.
        """
        self.progress("starting processes")
        if self.request.kind == "cpu":
            prewarm_benchmark(threads, [self.contract.name], self.request.in_processes, with_gradients(self.tables()))
        limits = {"memory_limit": memory_limit(), "in_processes": self.request.in_processes}
        started = [
            participant(each, place=place, **limits, **self._settings(threads))
            for place, each in enumerate(self.implementations)
        ]
        for each in started:
            stack.callback(each.close)
            if self.request.kind == "cpu":
                each.start()
        return started

    def _timed(
        self, table: Table, participants: Sequence[Participant], beside: Participant | None, timing: Timing
    ) -> list[Measurement]:
        """The rows of a table, in the order of the participants."""
        self.progress(f"{table.workload.name} {table.dtype} {table.direction}")
        timed = timing.time(table, participants, beside)
        self.busy += filter(None, [timed.load.says(table.threads)])
        able = [entry for entry in timed.entries if not entry.failed]
        rows = {name: self._row(table, name, failed) for name, failed in timed.failed.items()}
        rows |= {entry.name: self._row(table, entry.name, entry.failed) for entry in timed.entries}
        if able:
            if self._key(table) not in self.ceilings and self._measures_ceilings:
                self._reach(table, able)
            weights = timing.weigh(table, able)
            rows |= {entry.name: self._measured(entry, table, timed, weights[entry.name]) for entry in able}
        if self.request.kind != "cpu":
            for entry in timed.entries:
                entry.participant.release()
        ordered = self._with_ceilings(table, [rows[each.name] for each in participants], able)
        return [self._believed(table, row, timed.load) for row in ordered]

    def _measured(self, entry: Entry, table: Table, timed: TimedTable, weight: Weight) -> Measurement:
        """The row of an entry that has not failed."""
        asked = table.under(entry.participant.declaration)
        notes = [_other_work(table, asked)]
        if weight is None:
            notes.append("timed in this process, for no other can import it; its memory is not told from the suite's")
        return structs.replace(
            measured(self._row(table, entry.name), entry, weight, notes),
            work=dict(asked.workload.work(table.dtype, table.direction)),
            ceilings=self.ceilings.get(self._key(table), {}),
            telemetry=self._telemetry(entry, timed) if self.request.kind == "cuda" else {},
        )

    @property
    def _measures_ceilings(self) -> bool:
        """Whether ceilings are measured, which takes seconds: not for a single submitted file."""
        timed = [declaration_of(each) for each in self.implementations]
        submitted = [each for each in timed if each.name != self.contract.baseline]
        return len(submitted) > 1 or all(each.shipped for each in timed)

    def _reach(self, table: Table, able: Sequence[Entry]) -> None:
        """Measure what the machine reaches in the table's dtype, on its threads; what was higher before stays.

        In the process of one that ships here, if any takes part: a submission may change what its process measures.
        """
        participants = [entry.participant for entry in able]
        trusted = next((each for each in participants if each.shipped), participants[0])
        answer = trusted.ceilings(table.dtype)
        if not isinstance(answer, NoResult):
            before = self.ceilings.get(self._key(table), {})
            now = {name: max(rate, before.get(name, 0.0)) for name, rate in answer.ceilings.items()}
            self.ceilings[self._key(table)] = now
            self._reached_here.add(self._key(table))

    def _with_ceilings(self, table: Table, rows: list[Measurement], able: Sequence[Entry]) -> list[Measurement]:
        """The rows; where one lies above what this run measured as a ceiling, with ceilings measured again.

        Other work may have kept the machine busy while they were measured.
        """
        key = self._key(table)
        for _ in range(MEASURED_AGAIN):
            if key not in self._reached_here or not any(_is_beyond(row, RATE_SLACK) for row in rows):
                break
            self._reach(table, able)
            rows = [structs.replace(row, ceilings=self.ceilings[key]) if row.seconds else row for row in rows]
        return rows

    def _believed(self, table: Table, row: Measurement, load: Load) -> Measurement:
        """The row, or its refusal where it claims more than this machine can do, by whatever trick.

        On a busy machine the ceiling may be too low: a row that this explains has no time, and is not refused.
        """
        if not _is_beyond(row, AGED_SLACK):
            return row
        reached, rate = row.ceilings["flops"], row.work["attended"] / median(row.seconds)
        claims = f"it claims {rate:.3g} FLOPs per second, where a matrix product reaches {reached:.3g}"
        if _is_beyond(row, AGED_SLACK * load.slowdown(table.threads)):
            return self._row(table, row.implementation, NoResult(Status.REFUSED, claims))
        why = f"not bounded: {load.says(table.threads)}: {claims}"
        return self._row(table, row.implementation, NoResult(Status.UNSUPPORTED, why))

    def _telemetry(self, entry: Entry, timed: TimedTable) -> dict[str, Any]:
        """The device's telemetry of calls in a row, joules of one call included, and of all rounds."""
        in_rounds: dict[str, Any] = {}
        for name in ("sm_clock", "throttle"):
            in_rounds[f"{name}_in_rounds"] = timed.telemetry.get(name)
            if reason := timed.telemetry.get(f"{name}_absent"):
                in_rounds[f"{name}_in_rounds_absent"] = reason
        answer = entry.participant.energy(entry.prepared.calls, median(entry.seconds))
        if isinstance(answer, Energy):
            return {**answer.telemetry, **in_rounds}
        return {"joules": None, "joules_absent": str(answer), **in_rounds}

    def _row(self, table: Table, name: str, failed: NoResult | None = None) -> Measurement:
        return table.row(name, self.contract.name, self.request.device, failed)

    def _about_all(self, name: str, failed: NoResult) -> Measurement:
        """A row about every workload."""
        every = EVERY_CASE
        key = name, self.contract.name, every, every, self.request.device, 0, every, every
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
    """Time a function, or several against each other, on a contract's workloads and return a Measurement for each.

    `workloads` are names, groups or patterns (`"ladder"`), by default those of the profile `quick`. Each function is
    timed in a process of its own; one that no other process can import (a lambda, a closure) is timed in this one, and
    its rows say so. `cache` is hot or cold, `threads` are thread counts on a CPU, `budget` is in seconds of timed calls
    for each in each table, `time_limit` in seconds for an answer. `backward` times gradients too, `step` training
    steps, of models and blocks that have one. A function that fails the contract there is `refused`. Functions of one
    name get numbers: `attention`, `attention-2`. Raises UsageError for an unknown contract, workload, profile or
    device.
    """
    given: object = function
    functions = [function] if callable(function) else list(given) if isinstance(given, Iterable) else []
    if not functions or not all(map(callable, functions)):
        kind = type(function).__name__ if functions or not isinstance(given, Iterable) else "none at all"
        raise UsageError(f"attnsuite.bench takes a function or several, not {kind}")
    patterns = (workloads,) if isinstance(workloads, str) else tuple(workloads or ())
    counts = (threads,) if isinstance(threads, int) else tuple(threads)
    request = Request(patterns, profile, str(device), backward, cache, counts, time_limit, budget, step)
    implementations = with_unique_names([registry.from_function(each, contract) for each in functions])
    benchmark = Benchmark(contract_named(contract), implementations, request)
    return [row for _, rows in benchmark.run() for row in rows]


def with_unique_names(implementations: Iterable[Loaded]) -> list[Loaded]:
    """The implementations, those after the first of a name under the name and a number."""
    seen: Counter[str] = Counter()
    named = []
    for each in implementations:
        name = each.declaration.name
        seen[name] += 1
        unique = name if seen[name] == 1 else f"{name}-{seen[name]}"
        named.append(replace(each, declaration=replace(each.declaration, name=unique)))
    return named


def _is_beyond(row: Measurement, slack: float) -> bool:
    """Whether a row's rate is more than `slack` times what a matrix product reached."""
    reached = row.ceilings.get("flops", inf) * slack
    claims = bool(row.seconds) and row.work.get("attended", 0.0) > median(row.seconds) * reached
    return row.dtype in HELD_TO_PRODUCTS and claims


def _other_work(table: Table, asked: Table) -> str:
    """What a row says where the work that an implementation's conventions ask for is not that of the contract's."""
    own, other = (each.workload.work(table.dtype, table.direction)["attended"] for each in (table, asked))
    return (
        "" if own == other else f"by the conventions that it declares it does {other / max(own, 1):.3g} times the work"
    )


def _is_absent(implementation: Implementation) -> bool:
    declaration = declaration_of(implementation)
    return bool(declaration.broken) or registry.missing_library(declaration) is not None
