"""Tables of identical and slowed implementations, measured as benchmarks are, in processes of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from random import Random

from attnsuite.benchmark.entry import Entry
from attnsuite.benchmark.measure.messages import Job, NoResult
from attnsuite.benchmark.participant import Participant, begun
from attnsuite.benchmark.processes import cores
from attnsuite.benchmark.race import race
from attnsuite.cases import Workload
from attnsuite.model.audit import SLOWDOWNS, Trial
from attnsuite.model.faster import compare
from attnsuite.registry import Declaration
from attnsuite.worker.forkserver import forget_servers

CONTRACT, BASELINE = "attention", "matmul"
SLOWED = "attnsuite.benchmark.stopwatch.slowed"
"""The module of the functions that are timed."""
FIRST_WORKLOAD = "documents/one-sentence"
"""The workload that all processes prepare first, in parallel, so that they import what processes of a benchmark
import."""


class AuditTable:
    """One baseline, a number of identical implementations and one for each slowdown, on one workload.

    After `measure` there are `trials`, `entries` with all samples, and in `failed` those that could not be timed.
    """

    def __init__(
        self, number: int, workload: Workload, threads: int, identical: int, slowdowns: Sequence[float] = SLOWDOWNS
    ) -> None:
        self.number, self.workload, self.threads = number, workload, threads
        injected = {BASELINE: 0.0, **{f"identical_{place}": 0.0 for place in range(1, identical + 1)}}
        injected |= {f"slower_{100 * share:.0f}": share for share in slowdowns}
        self.injected = {f"{CONTRACT}/{name}": share for name, share in injected.items()}
        self.trials: list[Trial] = []
        self.entries: list[Entry] = []
        self.failed: list[str] = []

    def measure(self, budget: float, random: Random) -> None:
        """Start all processes, prepare them in random order, time them round by round, and end them."""
        forget_servers()  # as if this were the only table of a benchmark
        with ExitStack() as stack:
            participants = list(self._started(stack))
            for participant in random.sample(participants, len(participants)):
                job = _job(self.workload.name)
                prepared = participant.prepare(job)
                if isinstance(prepared, NoResult):
                    self._fail(participant.name, prepared)
                else:
                    self.entries.append(Entry(participant, prepared, job.direction, job.cache))
            rows = self.workload.rows("forward", random)
            race(self.entries, f"{CONTRACT}/{BASELINE}", rows, budget, random)
        for entry in self.entries:
            self._fail(entry.name, entry.failed)
        samples = {entry.name: entry.seconds for entry in self.entries if not entry.failed}
        base = samples.pop(f"{CONTRACT}/{BASELINE}", ())
        for name, ratio in compare(base, samples).items():
            key = self.number, self.threads, self.workload.name, self.injected[name]
            self.trials.append(Trial(*key, ratio.verdict, ratio.speedup, ratio.low, ratio.high, ratio.pairs))

    def _started(self, stack: ExitStack) -> Iterator[Participant]:
        """The participants whose processes have started and prepared the first workload."""
        participants = begun(self._declarations(), stack, threads=self.threads)
        with ThreadPoolExecutor(len(cores())) as pool:
            replies = list(pool.map(lambda each: each.ready() or each.prepare(_job(FIRST_WORKLOAD)), participants))
        for participant, reply in zip(participants, replies, strict=True):
            self._fail(participant.name, reply if isinstance(reply, NoResult) else None)
            if not isinstance(reply, NoResult):
                yield participant

    def _declarations(self) -> Iterator[Declaration]:
        for full_name, share in self.injected.items():
            function = f"slower_{100 * share:.0f}" if share else "plain"
            yield Declaration(CONTRACT, full_name.removeprefix(f"{CONTRACT}/"), function, SLOWED)

    def _fail(self, name: str, failed: NoResult | None) -> None:
        if failed:
            self.failed.append(f"{name} on {self.workload.name}, threads {self.threads}: {failed}")


def _job(workload: str) -> Job:
    return Job(CONTRACT, workload, "float32", "forward")
