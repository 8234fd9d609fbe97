"""A benchmark: implementations of one contract, timed table by table. What is done already is not done again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from random import Random, SystemRandom
from statistics import median
from typing import Any

from msgspec.structs import replace

from attnsuite import registry
from attnsuite.benchmark.accounts import Accounts
from attnsuite.benchmark.busy import Load
from attnsuite.benchmark.entry import Entry
from attnsuite.benchmark.gate import Gate
from attnsuite.benchmark.implementation import Implementation, declaration_of
from attnsuite.benchmark.kept import Kept
from attnsuite.benchmark.kept_ceilings import KeptCeilings
from attnsuite.benchmark.measure.protocol import Energy, Failed, Rates, Weighed
from attnsuite.benchmark.own_cores import own_cores
from attnsuite.benchmark.participant import Participant, participant
from attnsuite.benchmark.processes import expect_measured
from attnsuite.benchmark.request import Request, Table, memory_limit, with_gradients
from attnsuite.benchmark.timing import TimedTable, Timing
from attnsuite.benchmark.weighing import Weighing, Weight
from attnsuite.benchmark.yardstick import yardstick
from attnsuite.cases import Contract, Workload
from attnsuite.model import EVERY_CASE, Measurement, Outcome, Status
from attnsuite.model.bounded import NOT_BOUNDED
from attnsuite.results.store.ranges import AGED_SLACK, RATE_SLACK, is_beyond_reach
from attnsuite.worker import await_servers

HELD_TO_PRODUCTS = ("float64", "float32")
"""The dtypes in which a claim is held against what a matrix product reaches: no honest kernel outdoes one by far.
Processors without products of half types multiply them more slowly than a kernel does that widens its inputs first."""
Key = tuple[str, ...]
"""What tells a row from others: see `Measurement.key`."""
MEASURED_AGAIN = 2
"""How often ceilings are measured again where a row lies above them: what kept the machine busy for some seconds is
over by then, or it stays that busy."""


@dataclass
class Benchmark:
    """The benchmark of several implementations of one contract.

    `earlier` are outcomes that still hold, by implementation; `seconds` says where the time went, by activity.
    `ceilings` is what the machine reaches, by dtype and threads: it is measured where it is not given.
    """

    contract: Contract
    implementations: Sequence[Implementation]
    request: Request
    earlier: Mapping[str, Sequence[Outcome]] = field(default_factory=dict)
    sampled: Collection[str] = ()
    """The implementations whose `earlier` outcomes are a sample, and suffice."""
    kept: Kept | None = None
    """Verdicts of earlier runs, where these are believed, or at least kept."""
    seconds: Accounts = field(default_factory=Accounts)
    random: Random = field(default_factory=SystemRandom)
    """Draws what no submission may foresee, so it is not computed from what was drawn before."""
    tell: Callable[[str], None] = lambda doing: None
    """Is told what is being done."""
    introduce: Callable[[str], None] = lambda line: None
    """Is told which signature an implementation was taken to have, where that is not the contract's own."""
    ceilings: dict[tuple[str, int], Rates] = field(default_factory=dict)
    kept_ceilings: KeptCeilings | None = None
    """Those of earlier runs, where these are believed, or at least kept."""
    busy: list[str] = field(default_factory=list)
    """For each table that was timed while the machine was busy, how busy it was."""

    def __post_init__(self) -> None:
        self._weighing = Weighing(self.contract)
        self._reached_here: set[tuple[str, int]] = set()

    def tables(self) -> list[Table]:
        """What will be measured, in order. UsageError where that is nothing."""
        return self.request.tables(self.contract)

    def workloads(self) -> list[Workload]:
        """All workloads of the contract, and those that the request makes itself."""
        there = list(self.contract.workloads())
        return [*there, *(each for each in dict.fromkeys(t.workload for t in self.tables()) if each not in there)]

    def expect(self, threads: int) -> None:
        """Begin in the background to import what tables on so many threads need."""
        if self.request.kind == "cpu":
            expect_measured(threads, [self.contract.name], self.request.in_processes, with_gradients(self.tables()))

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
                timing = timing or Timing(self.contract, self.request, self._gate(todo), self.seconds, self.random)
                participants, unready, beside = self._ready(started, threads, stack)
                news = [row for row in unready if row.implementation not in about_all]
                about_all |= {row.implementation for row in unready}
                if news:
                    yield None, [row for row in news if row.key not in done]
                for table in tables:
                    yield table, self._timed(table, participants, beside, timing)

    def again(self, done: Collection[Key]) -> set[Key]:
        """The keys of the rows that `run` will yield, of what is done as well: a table is measured as a whole."""
        return {key for table in self._todo(done) for key in self._keys(table)}

    def _todo(self, done: Collection[Key]) -> list[Table]:
        about_all = {key[0] for key in done if key[1] == EVERY_CASE}
        return [
            table for table in self.tables() if not all(key in done or key[0] in about_all for key in self._keys(table))
        ]

    def _keys(self, table: Table) -> list[Key]:
        names = [declaration_of(each).full_name for each in self.implementations]
        return [table.row(name, self.contract.name, self.request.device).key for name in names]

    def _gate(self, todo: Sequence[Table]) -> Gate:
        """The gate, which has asked all implementations what the tables use."""
        threads = max((table.threads for table in todo), default=0)
        gate = Gate(self.contract, self.request.device, self.request.time_limit, self.earlier, self.kept, threads)
        gate.sampled = self.sampled
        self.tell(f"conformance of {self.contract.name}")
        with self.seconds.spending("conformance"):
            uses = {(table.dtype, table.features(self.contract)) for table in todo}
            gate.ask([each for each in self.implementations if not _is_absent(each)], uses)
        for line in filter(None, (*(gate.signed[name] for name in sorted(gate.signed)), gate.said)):
            self.introduce(line)
        return gate

    def _settings(self, threads: int) -> dict[str, Any]:
        """What is alike for all who are timed on so many threads."""
        return {
            "device": self.request.device,
            "threads": threads,
            "time_limit": self.request.time_limit,
            "gradients": with_gradients(self.tables()),
        }

    def _started(self, threads: int, stack: ExitStack) -> list[Participant]:
        """All implementations as participants, which begin to import while it is found what they answered before.

        On a GPU they begin later: each would take memory from those that are asked.
        """
        self.tell("starting processes")
        self.expect(threads)
        limits = {"memory_limit": memory_limit(), "in_processes": self.request.in_processes}
        with self.seconds.spending("starts"):
            started = [
                participant(each, place=place, **limits, **self._settings(threads))
                for place, each in enumerate(self.implementations)
            ]
            for each in started:
                stack.callback(each.close)
                if self.request.kind == "cpu":
                    each.start()
        return started

    def _ready(
        self, started: Sequence[Participant], threads: int, stack: ExitStack
    ) -> tuple[list[Participant], list[Measurement], Participant | None]:
        """Everybody who can take part, rows that say why the others cannot, and the yardstick where one is needed."""
        ready, unready = [], []
        settings = self._settings(threads)
        with self.seconds.spending("starts"):
            for each in started:
                each.start()
            beside = yardstick(
                self.contract.name, self.contract.baseline, self.implementations, stack, place=len(started), **settings
            )
            for each in started:
                if failed := each.ready():
                    unready.append(self._about_all(each.name, failed))
                else:
                    ready.append(each)
            await_servers()  # nothing is imported while others are timed
        return ready, unready, beside

    def _timed(
        self, table: Table, participants: Sequence[Participant], beside: Participant | None, timing: Timing
    ) -> list[Measurement]:
        with own_cores(table.threads, self.request.device, self.tell):
            self.tell(f"{table.workload.name} {table.dtype} {table.direction}")
            timed = timing.time(table, participants, beside)
            self.busy += filter(None, [timed.load.says(table.threads)])
            return self._rows(table, participants, timed)

    def _rows(self, table: Table, participants: Sequence[Participant], timed: TimedTable) -> list[Measurement]:
        found = {name: self._row(table, name, failed) for name, failed in timed.failed.items()}
        if timed.entries:
            self._find_ceilings(table, timed.entries)
            with self.seconds.spending("memory"):
                weighed = self._weighing.weigh(table, timed.entries)
            for entry in timed.entries:
                of = weighed.get(entry.name)
                measured = self._row(table, entry.name, entry.failed)
                if not entry.failed:
                    measured = self._measured(measured, entry, table, timed, of)
                found[entry.name] = measured
                if self.request.kind != "cpu":
                    entry.participant.release()
        rows = self._beside_ceilings(table, [found[each.name] for each in participants], timed.entries)
        return [self._believed(table, row, timed.load) for row in rows]

    def _measured(
        self, row: Measurement, entry: Entry[Participant], table: Table, timed: TimedTable, weighed: Weight
    ) -> Measurement:
        """The row with all that was measured."""
        asked = table.under(entry.participant.declaration)
        known = weighed if isinstance(weighed, Weighed) else Weighed({}, "")
        note = f"no memory: {weighed}" if isinstance(weighed, Failed) else ""
        if weighed is None:
            note = "timed in this process, for no other can import it; its memory is not told from the suite's"
        return replace(
            row,
            detail="; ".join(filter(None, (_doubt(entry), _other_work(table, asked), note))),
            seconds=tuple(entry.seconds),
            processes=entry.processes,
            calls=entry.calls,
            stopped=entry.stopped,
            first_call=entry.prepared.first_call,
            warm_up=entry.prepared.warm_up,
            making=entry.prepared.making,
            memory=known.memory,
            work=dict(asked.workload.work(table.dtype, table.direction)),
            ceilings=self.ceilings.get((table.dtype, table.threads), {}),
            error_ratio=entry.error_ratio,
            own_clock=entry.own_clock,
            relative_error=entry.relative_error,
            kernel=known.kernel,
            telemetry=self._telemetry(entry, timed) if self.request.kind == "cuda" else {},
        )

    def _beside_ceilings(
        self, table: Table, rows: Sequence[Measurement], entries: Sequence[Entry[Participant]]
    ) -> Sequence[Measurement]:
        """The rows of a table; where one lies above what this run measured as a ceiling, with ceilings measured again.

        They were measured in seconds in which something else may have kept the machine busy.
        """
        key = table.dtype, table.threads
        for _ in range(MEASURED_AGAIN):
            if key not in self._reached_here or not any(_is_above(row) for row in rows):
                break
            self._reach(table, entries)
            rows = [replace(row, ceilings=self.ceilings[key]) if row.seconds else row for row in rows]
        return rows

    def _believed(self, table: Table, row: Measurement, load: Load) -> Measurement:
        """The row, or its refusal where it claims what this machine cannot do.

        Whatever was done where no clock looks, it was not done in this time. On a busy machine the ceiling may be too
        low: a row that this explains has no time, and is not refused.
        """
        if row.dtype not in HELD_TO_PRODUCTS or not is_beyond_reach(row, AGED_SLACK):
            return row
        reached, rate = row.ceilings["flops"], row.work["attended"] / median(row.seconds)
        claims = f"it claims {rate:.3g} FLOPs per second, where a matrix product reaches {reached:.3g}"
        if is_beyond_reach(row, AGED_SLACK * load.slowdown(table.threads)):
            return self._row(table, row.implementation, Failed(Status.REFUSED, claims))
        why = f"not bounded: {load.says(table.threads)}: {claims}"
        return self._row(table, row.implementation, Failed(Status.DECLINED, why))

    def _telemetry(self, entry: Entry[Participant], timed: TimedTable) -> dict[str, Any]:
        """What the device does during calls in a row, joules of one call included, and what it did in all rounds."""
        in_rounds: dict[str, Any] = {}
        for name in ("sm_clock", "throttle"):
            in_rounds[f"{name}_in_rounds"] = timed.telemetry.get(name)
            if reason := timed.telemetry.get(f"{name}_absent"):
                in_rounds[f"{name}_in_rounds_absent"] = reason
        with self.seconds.spending("energy"):
            answer = entry.participant.energy(entry.prepared.calls, median(entry.seconds))
        if isinstance(answer, Energy):
            return {**answer.telemetry, **in_rounds}
        return {"joules": None, "joules_absent": str(answer), **in_rounds}

    def _find_ceilings(self, table: Table, entries: Sequence[Entry[Participant]]) -> None:
        """Measure what the machine reaches, once for each dtype and number of threads.

        In the process of one that ships here, if any takes part: another may have changed what a product or a copy
        takes. What such a process said is kept.
        """
        key = table.dtype, table.threads
        able = [entry.participant for entry in entries if not entry.failed]
        if key in self.ceilings or not able:
            return
        if self.kept_ceilings and (known := self.kept_ceilings.of(*key)):
            self.ceilings[key] = known
            return
        self._reach(table, entries)

    def _reach(self, table: Table, entries: Sequence[Entry[Participant]]) -> None:
        """Measure ceilings now. What was higher before stays."""
        key = table.dtype, table.threads
        able = [entry.participant for entry in entries if not entry.failed]
        trusted = next((each for each in able if each.shipped), able[0])
        with self.seconds.spending("ceilings"):
            answer = trusted.ceilings(table.dtype)
        if not isinstance(answer, Failed):
            before = self.ceilings.get(key, {})
            now = {name: max(each, before.get(name, 0.0)) for name, each in answer.ceilings.items()}
            self.ceilings[key] = now
            self._reached_here.add(key)
            if self.kept_ceilings and trusted.shipped:
                self.kept_ceilings.keep(*key, now)

    def _row(self, table: Table, name: str, failed: Failed | None) -> Measurement:
        return table.row(name, self.contract.name, self.request.device, failed)

    def _about_all(self, name: str, failed: Failed) -> Measurement:
        """A row that speaks of every workload."""
        every = EVERY_CASE
        key = name, self.contract.name, every, every, self.request.device, 0, every, every
        return Measurement(*key, failed.status, failed.detail)


def _is_above(row: Measurement) -> bool:
    """Whether a row lies above the ceiling that its run measured, by more than results may."""
    return row.dtype in HELD_TO_PRODUCTS and is_beyond_reach(row, RATE_SLACK)


def _doubt(entry: Entry[Participant]) -> str:
    """What a row says where the suite's own clock does not bound its time."""
    return entry.unbounded and f"{NOT_BOUNDED}: {entry.unbounded}"


def _other_work(table: Table, asked: Table) -> str:
    """What a row says where the work that an implementation's conventions ask for is not that of the contract's."""
    due, done = (of.workload.work(table.dtype, table.direction)["attended"] for of in (table, asked))
    return "" if done == due else f"by the conventions that it declares it does {done / max(due, 1):.3g} times the work"


def _is_absent(implementation: Implementation) -> bool:
    declaration = declaration_of(implementation)
    return bool(declaration.broken) or registry.absent(declaration) is not None
