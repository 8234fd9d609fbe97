"""One function that is timed, or whose memory is measured: what a worker answers to each verb."""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import msgspec
import torch

from attnsuite.benchmark.measure import Stopwatch, messages
from attnsuite.benchmark.measure.ceilings import ceilings
from attnsuite.benchmark.measure.failures import Dishonest, Result, attempt, set_threads
from attnsuite.benchmark.measure.handed import Handed
from attnsuite.benchmark.measure.memory import device_uuid
from attnsuite.benchmark.measure.messages import Answer, Job, Layout, NoResult, Rows, written
from attnsuite.benchmark.measure.task import Task
from attnsuite.benchmark.measure.weighing import OwnProcess, Scale, make_task
from attnsuite.judging import float32
from attnsuite.machine.telemetry import Meter
from attnsuite.worker.turns import Taken, Turn, take_turns

ENERGY_SECONDS = 2.0
"""How long calls are made in a row to measure their energy: NVML's counter moves some ten times a second."""
BUSY = 0.9
"""The share of that time for which the device works at least: the energy of a device that waits is not a call's."""


class Bench:
    """A function on the bench: one task of it is prepared at a time.

    `process` is the function's own; there is none where it shares the suite's.
    """

    def __init__(
        self, function: Callable[..., Any], device: str, process: OwnProcess | None = None, threads: int = 0
    ) -> None:
        self._function, self._device, self._process, self._threads = function, device, process, threads
        self._scale = Scale(function, device, process)
        self._prepared: tuple[Task, float] | None = None
        """The task, and the seconds that one call of it takes."""

    def __call__(self, verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a verb, both ways as plain data. What the function raises is the answer; float32 products are exact.

        What fails while the process is configured is the suite's own failure, and raised.
        """
        job = {"job": msgspec.convert(arguments["job"], Job)} if "job" in arguments else {}
        act = partial(VERBS[verb], self, **{**arguments, **job})
        if verb == Bench.configure.__name__:
            return written(act())
        answer = self._attempt(act)
        if isinstance(answer, NoResult) and verb == Bench.prepare.__name__:
            gc.collect()  # what was raised may hold inputs in a circle
        return written(answer)

    def configure(self, threads: int, memory_limit: int) -> messages.Done:
        """Give the process its number of threads and its share of memory in bytes; 0 leaves either as it is."""
        self._threads = self._scale.threads = threads
        set_threads(threads)
        if self._process is not None:
            self._process.limit_memory(memory_limit)
        return messages.Done()

    def prepare(self, job: Job) -> messages.PreparedTask:
        """Make a task, time its first call and warm it up. Raises `Dishonest` where its times cannot be believed."""
        self._prepared = None
        task = make_task(self._function, job, self._device, job.cache)
        first_call = task.stopwatch.first_call()
        warm_up, expected = task.stopwatch.warm_up()
        if not expected > 0:
            raise Dishonest("no time passes while it is called")
        if remembers := task.remembers(expected):
            raise Dishonest(remembers)
        calls, expected = task.stopwatch.pace(expected)
        self._prepared = task, expected
        return messages.PreparedTask(task.making, first_call, warm_up, expected, calls, task.stopwatch.head_start)

    def enter(self, number: int) -> messages.Entered:
        """Make the inputs of a round, and fill the cache."""
        task, expected = self._task
        return messages.Entered(task.enter_round(number, expected))

    def sample(self, calls: int) -> messages.Sampled:
        """Time a number of calls on the inputs of the round. The benchmark's process takes the time, too."""
        task = self._task[0]
        seconds = task.stopwatch.sample(calls)
        task.copy_result()
        return messages.Sampled(seconds, task.stopwatch.made)

    def idle(self) -> messages.Done:
        """Do what a sample does besides its calls, so that the benchmark knows what asking takes."""
        self._task[0].copy_result()
        return messages.Done()

    def found(self, rows: Rows) -> messages.OutputRows:
        """Rows of what the last timed call returned."""
        return messages.OutputRows(self._task[0].found(rows))

    def exchange(self, channel: socket.socket, inputs: Layout, warm: int) -> messages.Exchanged:
        """Answer inputs that come over the channel, turn by turn, from the process that asks and takes the time."""
        handed = Handed(self._task[0], inputs, warm)
        take_turns(channel, handed)
        return messages.Exchanged(handed.layout)  # type: ignore[arg-type]  # checked by the process that asks

    def exchange_here(
        self, inputs: Layout, warm: int, turns: Sequence[Turn]
    ) -> tuple[list[Taken], messages.Exchanged] | NoResult:
        """The same in the process that asks: each turn's answer, and how the answers lie in their bytes."""

        def taken() -> tuple[list[Taken], messages.Exchanged]:
            handed = Handed(self._task[0], inputs, warm)
            return handed.take(turns), messages.Exchanged(handed.layout)  # type: ignore[arg-type]

        return self._attempt(taken)

    def release(self) -> messages.Done:
        """Let go of the task and its tensors."""
        self._prepared = None
        return self.rest()

    def rest(self) -> messages.Done:
        """Give the device what PyTorch keeps of its memory for later. The next round's first call is not timed."""
        if torch.device(self._device).type == "cuda":
            torch.cuda.empty_cache()
        return messages.Done()

    def weigh(self, job: Job, rehearse: bool) -> messages.Weighed | NoResult:
        """The memory and the kernels of one call; see `Scale`. On a GPU it is a call of the task that is prepared."""
        prepared = self._prepared[0] if self._prepared and torch.device(self._device).type == "cuda" else None
        return self._scale.weigh(job, rehearse, prepared)

    def energy(self, calls: int, seconds: float) -> messages.Energy:
        """Make calls in a row, in samples, for long enough to measure the energy of one, which takes so many seconds.

        Nothing is flushed between them: the device's energy for that would be taken for theirs.
        """
        made, task = 0, self._task[0]
        stopwatch = Stopwatch(task.call, before=task.before, device=self._device, cache="hot")
        with Meter(device_uuid(self._device) or self._device) as meter:
            began = perf_counter()
            while perf_counter() < began + ENERGY_SECONDS:
                stopwatch.sample(calls)
                made += calls
            busy = made * seconds / (perf_counter() - began)
        return messages.Energy(of_one_call(meter.telemetry, made, busy, alone=task.before is None))

    def ceilings(self, dtype: str) -> messages.Ceilings:
        """What the machine reaches in a dtype with this process's threads; the function is not called."""
        return messages.Ceilings(ceilings(dtype, self._device))

    def _attempt(self, act: Callable[[], Result]) -> Result | NoResult:
        with float32.exact():
            return attempt(act, self._threads, alone=self._process is not None)

    @property
    def _task(self) -> tuple[Task, float]:
        if self._prepared is None:
            raise RuntimeError("no task is prepared")
        return self._prepared


def of_one_call(telemetry: Mapping[str, Any], calls: int, busy: float, alone: bool) -> dict[str, Any]:
    """The telemetry of a number of calls, with the joules of one, or the reason why these are not those of a call.

    `busy` is the share of the time for which the device worked, `alone` whether nothing else was done between calls.
    """
    joules, reason = telemetry.get("joules"), ""
    if not alone:
        reason = "its forward comes before each backward: see forward and backward together"
    elif busy < BUSY:
        reason = f"the device waited for {1 - busy:.0%} of the time of these calls in a row: launching one takes longer"
    if joules is None or not reason:
        return {**telemetry, "joules": None if joules is None else joules / calls}
    return {**telemetry, "joules": None, "joules_absent": reason}


_METHODS = (
    *(Bench.configure, Bench.prepare, Bench.enter, Bench.sample, Bench.idle, Bench.found, Bench.exchange),
    *(Bench.release, Bench.rest, Bench.weigh, Bench.energy, Bench.ceilings),
)
VERBS: dict[str, Callable[..., Answer | NoResult]] = {method.__name__: method for method in _METHODS}
"""What a worker answers, by name."""


def begin() -> Callable[[Callable[..., Any], str], Bench]:
    """The service of a worker that is timed. It starts before an import, which may replace modules."""
    return partial(Bench, process=OwnProcess())


def begin_to_weigh() -> Callable[[Callable[..., Any], str], Bench]:
    """The same of a worker in which nothing is timed."""
    return partial(Bench, process=OwnProcess(timed=False))
