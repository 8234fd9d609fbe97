"""Implementations × workloads → measurements."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from random import Random
from time import perf_counter
from typing import Any

import torch

from suite import registry
from suite.asking import Contract
from suite.benchmark import rounds
from suite.benchmark.gate import Gate
from suite.benchmark.member import Answer, Member, expect_members, member
from suite.benchmark.request import Request, Table, cores, memory_limit
from suite.benchmark.rounds import Course
from suite.contracts import contract as contract_named
from suite.machine import nvidia
from suite.measure.memory import device_uuid
from suite.records import EVERY_CASE, Measurement, Outcome, Reason, Status, UsageError
from suite.records.limits import TIME_LIMIT
from suite.registry import Declaration, Loaded
from suite.worker import await_servers

__all__ = ["Benchmark", "Request", "Table", "bench"]

MORE_CORES, COUNTING = 1.25, 0.1
"""How much more CPU time than its cores can give, and so many seconds more, show that others were used."""

Implementation = Declaration | Loaded
EVERYTHING = EVERY_CASE
"""The workload of a row that speaks of all of them: a missing library, an import that raised."""
LONG, HOPELESS = 0.1, 2.0
"""A call of this share of the longest allowed tells what more of its work will take, in proportion. Where that is so
many times the longest allowed, it is not tried."""


@dataclass(frozen=True)
class Pace:
    """What a call took, `says` of which workload, and the FLOPs in it."""

    says: str
    seconds: float
    work: float

    def hopeless(self, work: float, slowest: float) -> str:
        """Why a call with so much work need not be tried where one may take `slowest` seconds; empty where it may."""
        times = work / self.work
        expected = self.seconds * times if self.seconds > LONG * slowest else 0.0
        if times < 1 or (self.seconds <= slowest and expected <= HOPELESS * slowest):
            return ""
        more = f"{times:.3g} times the work" if times > 1 else "as much work"
        return f"too slow to time here: {more} of {self.says}, which takes {self.seconds:.3g} s a call"


@dataclass
class Benchmark:
    """The benchmark of several implementations of one contract.

    `earlier` are outcomes that still hold, by implementation; `seconds` says where the time went, by activity.
    """

    contract: Contract
    implementations: Sequence[Implementation]
    request: Request
    earlier: Mapping[str, Sequence[Outcome]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    random: Random = field(default_factory=Random)
    tell: Callable[[str], None] = lambda doing: None
    """Is told what is being done."""
    _ceilings: dict[tuple[str, int], Mapping[str, float]] = field(default_factory=dict)
    _memory: dict[tuple[str, str, str, int, bool], Answer] = field(default_factory=dict)
    """What whole calls take of memory: of an implementation on a workload, dtype and threads, forward alone or not."""
    _paces: dict[tuple[str, str, str, int], Pace] = field(default_factory=dict)
    """The longest call so far of an implementation in a group of workloads, by dtype and threads."""

    def tables(self) -> list[Table]:
        """What will be measured, in order. UsageError where that is nothing."""
        return self.request.tables(self.contract)

    def expect(self) -> None:
        """Begin in the background with what will have to be imported, for `run` to find it done."""
        if self.request.kind == "cpu":
            expect_members(self.tables()[0].threads)

    def run(self, done: Collection[tuple[str, ...]] = ()) -> Iterator[tuple[Table | None, list[Measurement]]]:
        """Yield the rows of each table, and first those about all workloads. Tables that are `done` are left out.

        A table is measured again as a whole when one of its rows is not among the keys that are `done`.
        """
        todo = self._todo(done)
        gate = Gate(self.contract, self.request.device, self.request.time_limit, self.earlier)
        self.tell(f"conformance of {self.contract.name}")
        with self._spending("conformance"):
            uses = {(table.dtype, table.features(self.contract)) for table in todo}
            gate.ask([each for each in self.implementations if not self._is_absent(each)], uses)
        about_all: set[str] = set()
        for threads, tables in groupby(todo, key=lambda table: table.threads):
            with ExitStack() as stack:
                self.tell("starting processes")
                members, unready = self._members(threads, stack)
                news = [row for row in unready if row.implementation not in about_all]
                about_all |= {row.implementation for row in unready}
                if news:
                    yield None, [row for row in news if row.key not in done]
                for table in tables:
                    self.tell(f"{table.workload.name} {table.dtype} {table.direction}")
                    yield table, self._table(table, members, gate)

    def again(self, done: Collection[tuple[str, ...]]) -> set[tuple[str, ...]]:
        """The keys of the rows that `run` will yield, of what is done as well: a table is measured as a whole."""
        return {key for table in self._todo(done) for key in self._keys(table)}

    def _todo(self, done: Collection[tuple[str, ...]]) -> list[Table]:
        about_all = {key[0] for key in done if key[1] == EVERYTHING}
        return [
            table for table in self.tables() if not all(key in done or key[0] in about_all for key in self._keys(table))
        ]

    def _keys(self, table: Table) -> list[tuple[str, ...]]:
        return [self._row(name, table, Status.MEASURED).key for name in self._names]

    @property
    def _names(self) -> list[str]:
        return [_declaration(each).full_name for each in self.implementations]

    def _is_absent(self, implementation: Implementation) -> bool:
        declaration = _declaration(implementation)
        return bool(declaration.broken) or registry.absent(declaration) is not None

    def _members(self, threads: int, stack: ExitStack) -> tuple[list[Member], list[Measurement]]:
        """Everybody who can take part, and rows that say why the others cannot."""
        ready, unready = [], []
        with self._spending("starts"):
            members = [
                member(each, self.request.device, threads, memory_limit(), self.request.time_limit, place)
                for place, each in enumerate(self.implementations)
            ]
            for each in members:
                stack.callback(each.close)
                each.start()
            for each in members:
                answer = each.ready()
                if "status" in answer:
                    unready.append(self._about_all(each.name, **answer))
                else:
                    ready.append(each)
            await_servers()  # nothing is imported while others are timed
        return ready, unready

    def _table(self, table: Table, members: Sequence[Member], gate: Gate) -> list[Measurement]:
        found: dict[str, Measurement] = {}
        courses, seen = self._raced(table, members, gate, found)
        while greedy := [course for course in courses if course.greedy]:  # what it took was taken from the others
            for course in greedy:
                assert isinstance(course.member, Member)
                course.member.restart()
                found[course.member.name] = self._row(course.member.name, table, **course.failed)
            others = [each for each in members if each.name not in found]
            courses, seen = self._raced(table, others, gate, found)
        if courses:
            self._find_ceilings(table, courses)
            weighed = self._weighed(table, courses)
            for course, memory in zip(courses, weighed, strict=True):
                found[course.member.name] = self._measured(course, table, memory, seen)
        return [found[each.name] for each in members]

    def _raced(
        self, table: Table, members: Sequence[Member], gate: Gate, found: dict[str, Measurement]
    ) -> tuple[list[Course], Mapping[str, Any]]:
        """The courses of all that can take part, and what the device did meanwhile; rows of the others are `found`."""
        courses: list[Course] = []
        for each in members:
            answer = self._prepared(each, table, gate)
            if "status" in answer:
                found[each.name] = self._row(each.name, table, **answer)
            else:
                courses.append(Course(each, answer))
        if not courses:
            return [], {}
        with nvidia.meter(device_uuid(self.request.device) or self.request.device) as meter:
            self._race(table, courses)
        return courses, meter.telemetry

    def _prepared(self, each: Member, table: Table, gate: Gate) -> Answer:
        """The member's task, warmed up; or a status that says why it takes no part."""
        if reason := table.declined(each.declaration, self.contract, self.request.kind):
            return {"status": "declined", "detail": reason}
        refusal, known = gate.refusal(each.name, table.dtype, table.features(self.contract))
        if refusal:
            return {"status": "refused", "detail": refusal, "known": known}
        work = table.workload.work(table.dtype, table.direction)["attended"]
        group = each.name, table.workload.group, table.dtype, table.threads
        pace = self._paces.get(group, Pace("", 0.0, math.inf))
        if detail := pace.hopeless(work, self.request.slowest):
            return {"status": Status.DECLINED, "detail": detail, "reason": Reason.TOO_SLOW}
        with self._spending("preparing"):
            answer = each.request("prepare", self._arguments(table))
        if "status" in answer:
            return answer
        self._move("preparing", "warm_up", answer["first_call"] + answer["warm_up"])
        seconds = answer["expected"]
        self._paces[group] = max(pace, Pace(table.says, seconds, work), key=lambda pace: pace.seconds)
        if seconds > self.request.slowest:
            each.request("release", {})
            detail = f"too slow to time here: a call takes {seconds:.3g} s, more than {self.request.slowest:g} s"
            return {"status": Status.DECLINED, "detail": detail, "reason": Reason.TOO_SLOW}
        return {**self._arguments(table), **answer}

    def _race(self, table: Table, courses: Sequence[Course]) -> None:
        rows = table.workload.rows(table.direction, self.random)
        used = {course.member.name: -_used(course) for course in courses}
        with self._spending("between rounds"):
            rounds.run(
                courses, f"{self.contract.name}/{self.contract.baseline}", rows, self.request.seconds, self.random
            )
        for course in courses:
            self._move("between rounds", "rounds", course.spent + course.made)
            self._move("between rounds", "warm_up", course.warmed)
            with self._spending("verification"):
                self._verify(table, course, rows, used[course.member.name] + _used(course))
            course.member.request("release", {})

    def _verify(self, table: Table, course: Course, rows: Mapping[str, Sequence[int]], used: float) -> None:
        """Hold the rows of the round that was kept, and of a proof, against the oracle; and the cores to those given.

        `used` is seconds of CPU time.
        """
        if course.failed:
            return
        judged = {
            "while it was timed its answer was wrong": course.kept,
            "its answer was wrong for numbers that it had not seen": course.proof,
        }
        ratios = []
        for says, (number, found) in ((says, of) for says, of in judged.items() if of is not None):
            verdict = table.workload.verdict(table.dtype, table.direction, number, rows, found)
            if verdict.status != "passed":
                detail = f"{says}: {verdict.detail}"
                course.failed = {"status": "refused", "detail": detail, "error_ratio": verdict.error_ratio}
                return
            ratios.append(verdict.error_ratio or 0.0)
        course.prepared = {**course.prepared, "error_ratio": max(ratios)}
        if table.threads and used > MORE_CORES * table.threads * course.awake + COUNTING:
            detail = f"it was given {table.threads} cores and used {used / course.awake:.2f}"
            course.failed, course.greedy = {"status": "refused", "detail": detail}, True

    def _weighed(self, table: Table, courses: Sequence[Course]) -> list[Answer]:
        """What a call of each takes of memory: in processes of their own, which may work side by side.

        Whole calls are weighed, so that what holds of a backward holds of forward and backward together.
        """

        def weigh(course: Course) -> Answer:
            assert isinstance(course.member, Member)
            if course.failed:
                return {}
            call = course.member.name, table.workload.name, table.dtype, table.threads, table.direction == "forward"
            if call not in self._memory:
                self._memory[call] = course.member.weigh(dict(course.prepared))
            return self._memory[call]

        at_once = len(cores()) if table.threads else 1  # a GPU's meter sees all that it holds
        longest_first = sorted(courses, key=lambda course: -course.prepared["first_call"])  # so that they end together
        with self._spending("memory"), ThreadPoolExecutor(at_once) as pool:
            answers = [(course, pool.submit(weigh, course)) for course in longest_first]
            found = {course.member.name: answer.result() for course, answer in answers}
        return [found[course.member.name] for course in courses]

    def _measured(self, course: Course, table: Table, weighed: Answer, seen: Mapping[str, Any]) -> Measurement:
        each = course.member
        assert isinstance(each, Member)
        if course.failed:
            return self._row(each.name, table, **course.failed)
        memory, note = weighed.get("memory", {}), ""
        if "status" in weighed:
            note = f"no memory: {weighed['status']}: {weighed['detail']}"
        elif not memory:
            note = "timed in this process, for no other can import it; its memory is not told from the suite's"
        row = self._row(each.name, table, Status.MEASURED, note)
        return replace(
            row,
            seconds=tuple(course.seconds),
            calls=int(course.prepared["calls"]),
            stopped=course.stopped,
            first_call=course.prepared["first_call"],
            warm_up=course.prepared["warm_up"],
            making=course.prepared["making"],
            memory=memory,
            work=dict(table.workload.work(table.dtype, table.direction)),
            ceilings=self._ceilings.get((table.dtype, table.threads), {}),
            error_ratio=course.prepared["error_ratio"],
            kernel=weighed.get("kernel", ""),
            telemetry=self._telemetry(table, each, seen) if self.request.kind == "cuda" else {},
        )

    def _telemetry(self, table: Table, each: Member, seen: Mapping[str, Any]) -> Answer:
        """What the device does during calls in a row, joules of one call included, and what it did in all rounds."""
        rounds_too: Answer = {}
        for name in ("sm_clock", "throttle"):
            rounds_too[f"{name}_in_rounds"] = seen.get(name)
            if reason := seen.get(f"{name}_absent"):
                rounds_too[f"{name}_in_rounds_absent"] = reason
        with self._spending("energy"):
            prepared = each.request("prepare", self._arguments(table))
            answer = (
                prepared if "status" in prepared else each.request("energy", {**self._arguments(table), **prepared})
            )
            each.request("release", {})
        if "status" in answer:
            return {"joules": None, "joules_absent": f"{answer['status']}: {answer['detail']}", **rounds_too}
        return {**answer["telemetry"], **rounds_too}

    def _find_ceilings(self, table: Table, courses: Sequence[Course]) -> None:
        """Measure what the machine reaches, once for each dtype and number of threads.

        In the baseline's process, if it takes part: another may have changed what a product or a copy takes.
        """
        key = table.dtype, table.threads
        able = [course.member for course in courses if not course.failed]
        if key in self._ceilings or not able:
            return
        trusted = next(
            (each for each in able if each.name == f"{self.contract.name}/{self.contract.baseline}"), able[0]
        )
        with self._spending("ceilings"):
            answer = trusted.request("ceilings", {"dtype": table.dtype})
        if "status" not in answer:
            self._ceilings[key] = answer["ceilings"]

    def _arguments(self, table: Table) -> Answer:
        named = {"contract": self.contract.name, "workload": table.workload.name}
        return {**named, "dtype": table.dtype, "direction": table.direction, "cache": table.cache}

    def _row(self, name: str, table: Table, status: str, detail: str = "", **more: Any) -> Measurement:
        return Measurement(
            name, self.contract.name, table.workload.name, table.dtype, self.request.device, table.threads,
            table.direction, table.cache, Status(status), detail, **more,
        )  # fmt: skip

    def _about_all(self, name: str, status: str, detail: str = "") -> Measurement:
        """A row that speaks of every workload."""
        every = EVERYTHING
        return Measurement(
            name, self.contract.name, every, every, self.request.device, 0, every, every, Status(status), detail
        )

    @contextmanager
    def _spending(self, activity: str) -> Iterator[None]:
        started = perf_counter()
        try:
            yield
        finally:
            self.seconds[activity] += perf_counter() - started

    def _move(self, activity: str, other: str, seconds: float) -> None:
        self.seconds[activity] -= seconds
        self.seconds[other] += seconds


def _used(course: Course) -> float:
    """Seconds of CPU time that a member's process has used."""
    assert isinstance(course.member, Member)
    return course.member.used()


def _declaration(implementation: Implementation) -> Declaration:
    return implementation.declaration if isinstance(implementation, Loaded) else implementation


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
) -> list[Measurement]:
    """Time a function, or several against each other, on a contract's workloads and return a Measurement for each.

    `workloads` are names, groups or patterns (`"ladder"`), by default those of the profile `quick`. Each function
    is timed in a process of its own; one that no other process can import (a lambda, a closure) is timed in this one,
    and its rows say so. `cache` is hot or cold, `threads` are thread counts on a CPU, `budget` is in seconds of timed
    calls for each in each table, `time_limit` in seconds for an answer. A function that fails the contract there is
    `refused`. Functions of one name get numbers: `attention`, `attention-2`. Raises UsageError for an unknown contract,
    workload, profile or device.
    """
    given: object = function
    functions = [function] if callable(function) else list(given) if isinstance(given, Iterable) else []
    if not functions or not all(map(callable, functions)):
        came = type(function).__name__ if functions or not isinstance(given, Iterable) else "none at all"
        raise UsageError(f"suite.bench takes a function or several, not {came}")
    patterns = (workloads,) if isinstance(workloads, str) else tuple(workloads or ())
    counts = (threads,) if isinstance(threads, int) else tuple(threads)
    request = Request(patterns, profile, str(device), backward, cache, counts, time_limit, budget)
    implementations = _told_apart([registry.from_function(each, contract) for each in functions])
    benchmark = Benchmark(contract_named(contract), implementations, request)
    return [row for _, rows in benchmark.run() for row in rows]


def _told_apart(implementations: Iterable[Loaded]) -> list[Loaded]:
    """The implementations under names that are all different."""
    seen: dict[str, int] = defaultdict(int)
    found = []
    for each in implementations:
        of = each.declaration
        seen[of.name] += 1
        name = of.name if seen[of.name] == 1 else f"{of.name}-{seen[of.name]}"
        found.append(replace(each, declaration=replace(of, name=name)))
    return found
