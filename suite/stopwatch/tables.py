"""Tables of identical and slowed implementations, measured as benchmarks are, each in processes of its own."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from random import Random

from suite.asking import Workload
from suite.benchmark import rounds
from suite.benchmark.member import Member
from suite.benchmark.request import cores, memory_limit
from suite.benchmark.rounds import Course
from suite.records.limits import TIME_LIMIT
from suite.records.stopwatch import SLOWDOWNS, Trial
from suite.registry import Declaration
from suite.statistics import compare
from suite.worker import forget_servers

CONTRACT, BASELINE = "attention", "matmul"
WARMING = "documents/one-sentence"
"""What processes are prepared for first, side by side: it makes them import what real ones have from earlier tables."""


class Table:
    """One baseline, so many identical implementations and one for each slowdown, on one workload.

    After `measure` there are `trials`, and in `failed` what could not be timed.
    """

    def __init__(self, number: int, workload: Workload, threads: int, identical: int) -> None:
        self.number, self.workload, self.threads = number, workload, threads
        injected = {BASELINE: 0.0, **{f"identical_{place}": 0.0 for place in range(1, identical + 1)}}
        injected |= {f"slower_{100 * share:.0f}": share for share in SLOWDOWNS}
        self.injected = {f"{CONTRACT}/{name}": share for name, share in injected.items()}
        self.trials: list[Trial] = []
        self.failed: list[str] = []

    def measure(self, budget: float, random: Random) -> None:
        """Start all processes, prepare them in random order, time them round by round, and end them."""
        forget_servers()  # as if this were the only table of a benchmark
        with ExitStack() as stack:
            members = list(self._started(stack))
            courses = [course for each in random.sample(members, len(members)) if (course := self._course(each))]
            rows = self.workload.rows("forward", random)
            rounds.run(courses, f"{CONTRACT}/{BASELINE}", rows, budget, random)
        self._judge(courses)

    def _started(self, stack: ExitStack) -> Iterator[Member]:
        members = [
            Member(of, "cpu", self.threads, memory_limit(), TIME_LIMIT, place=place)
            for place, of in enumerate(self._declarations())
        ]
        for each in members:
            stack.callback(each.close)
            each.start()
        with ThreadPoolExecutor(len(cores())) as pool:
            answers = list(pool.map(lambda each: each.ready() or each.request("prepare", _task(WARMING)), members))
        for each, answer in zip(members, answers, strict=True):
            if "status" in answer:
                self._fail(each.name, answer)
            else:
                yield each

    def _declarations(self) -> Iterator[Declaration]:
        for full_name, share in self.injected.items():
            function = f"slower_{100 * share:.0f}" if share else "plain"
            yield Declaration(CONTRACT, full_name.removeprefix(f"{CONTRACT}/"), function, "suite.stopwatch.slowed")

    def _course(self, each: Member) -> Course | None:
        task = _task(self.workload.name)
        answer = each.request("prepare", task)
        if "status" in answer:
            self._fail(each.name, answer)
            return None
        return Course(each, {**task, **answer})

    def _judge(self, courses: list[Course]) -> None:
        for course in courses:
            if course.failed:
                self._fail(course.member.name, course.failed)
        samples = {course.member.name: course.seconds for course in courses if not course.failed}
        base = samples.pop(f"{CONTRACT}/{BASELINE}", ())
        for name, found in compare(base, samples).items():
            where = self.number, self.threads, self.workload.name, self.injected[name]
            self.trials.append(Trial(*where, found.verdict, found.speedup, found.low, found.high, found.pairs))

    def _fail(self, name: str, answer: object) -> None:
        said = f"{answer['status']}: {answer['detail']}" if isinstance(answer, dict) else str(answer)
        self.failed.append(f"{name} on {self.workload.name}, threads {self.threads}: {said}")


def _task(workload: str) -> dict[str, str]:
    named = {"contract": CONTRACT, "workload": workload, "dtype": "float32"}
    return {**named, "direction": "forward", "cache": "hot"}
