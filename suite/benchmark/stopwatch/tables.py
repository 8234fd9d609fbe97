"""Tables of identical and slowed implementations, measured as benchmarks are, each in processes of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from random import Random

from attnsuite.benchmark.entry import Entry
from attnsuite.benchmark.measure.protocol import Failed, Job
from attnsuite.benchmark.participant import Participant
from attnsuite.benchmark.processes import cores, kept_awake
from attnsuite.benchmark.race import race
from attnsuite.cases import Workload
from attnsuite.model.statistics import compare
from attnsuite.model.stopwatch import SLOWDOWNS, Trial
from attnsuite.registry import Declaration
from attnsuite.worker import forget_servers

CONTRACT, BASELINE = "attention", "matmul"
FIRST_WORKLOAD = "documents/one-sentence"
"""What all processes prepare first, side by side: it makes them import what the processes of a benchmark have imported
in earlier tables."""


class AuditTable:
    """One baseline, a number of identical implementations and one for each slowdown, on one workload.

    After `measure` there are `trials`, `entries` with all samples, and in `failed` what could not be timed.
    """

    def __init__(
        self,
        number: int,
        workload: Workload,
        threads: int,
        identical: int,
        slowdowns: Sequence[float] = SLOWDOWNS,
    ) -> None:
        self.number, self.workload, self.threads = number, workload, threads
        injected = {BASELINE: 0.0, **{f"identical_{place}": 0.0 for place in range(1, identical + 1)}}
        injected |= {f"slower_{100 * share:.0f}": share for share in slowdowns}
        self.injected = {f"{CONTRACT}/{name}": share for name, share in injected.items()}
        self.trials: list[Trial] = []
        self.entries: list[Entry[Participant]] = []
        self.failed: list[str] = []

    def measure(self, budget: float, random: Random) -> None:
        """Start all processes, prepare them in random order, time them round by round, and end them."""
        forget_servers()  # as if this were the only table of a benchmark
        with ExitStack() as stack:
            participants = list(self._started(stack))
            shuffled = random.sample(participants, len(participants))
            entries = [entry for each in shuffled if (entry := self._entry(each))]
            self.entries = entries
            rows, awake = self.workload.rows("forward", random), kept_awake(self.threads)
            race(entries, f"{CONTRACT}/{BASELINE}", rows, budget, random, cores=awake)
        self._judge(entries)

    def _started(self, stack: ExitStack) -> Iterator[Participant]:
        participants = [
            Participant(of, threads=self.threads, place=place) for place, of in enumerate(self._declarations())
        ]
        for each in participants:
            stack.callback(each.close)
            each.start()
        with ThreadPoolExecutor(len(cores())) as pool:
            answers = list(pool.map(lambda each: each.ready() or each.prepare(_job(FIRST_WORKLOAD)), participants))
        for each, answer in zip(participants, answers, strict=True):
            if isinstance(answer, Failed):
                self._fail(each.name, answer)
            else:
                yield each

    def _declarations(self) -> Iterator[Declaration]:
        for full_name, share in self.injected.items():
            function = f"slower_{100 * share:.0f}" if share else "plain"
            yield Declaration(
                CONTRACT, full_name.removeprefix(f"{CONTRACT}/"), function, "attnsuite.benchmark.stopwatch.slowed"
            )

    def _entry(self, each: Participant) -> Entry[Participant] | None:
        job = _job(self.workload.name)
        answer = each.prepare(job)
        if isinstance(answer, Failed):
            self._fail(each.name, answer)
            return None
        return Entry(each, answer, job.direction, job.cache)

    def _judge(self, entries: list[Entry[Participant]]) -> None:
        for entry in entries:
            if entry.failed:
                self._fail(entry.name, entry.failed)
        samples = {entry.name: entry.seconds for entry in entries if not entry.failed}
        base = samples.pop(f"{CONTRACT}/{BASELINE}", ())
        for name, found in compare(base, samples).items():
            where = self.number, self.threads, self.workload.name, self.injected[name]
            self.trials.append(Trial(*where, found.verdict, found.speedup, found.low, found.high, found.pairs))

    def _fail(self, name: str, failed: Failed) -> None:
        self.failed.append(f"{name} on {self.workload.name}, threads {self.threads}: {failed}")


def _job(workload: str) -> Job:
    return Job(CONTRACT, workload, "float32", "forward")
