"""The service of a benchmark's worker: it times one function, or measures its memory, verb by verb."""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter
from typing import Any

import msgspec
import torch

from attnsuite.benchmark.measure import Stopwatch, messages
from attnsuite.benchmark.measure.call_memory import limit_memory, make_task, measure_call
from attnsuite.benchmark.measure.ceilings import ceilings
from attnsuite.benchmark.measure.failures import DishonestTiming, attempt, set_threads
from attnsuite.benchmark.measure.memory import device_uuid
from attnsuite.benchmark.measure.messages import BenchReply, Job, Layout, NoResult, Rows, encode
from attnsuite.benchmark.measure.received_inputs import ReceivedInputs
from attnsuite.benchmark.measure.task import Task
from attnsuite.judging import float32
from attnsuite.machine.telemetry import Meter
from attnsuite.worker.turns import take_turns

ENERGY_SECONDS = 2.0
"""Seconds of calls in a row that measure their energy: NVML's counter moves some ten times a second."""
BUSY = 0.9
"""The share of that time for which the device works at least: the energy of an idle device is not a call's."""


class Bench:
    """A function on the bench, with one prepared task at a time."""

    def __init__(self, function: Callable[..., Any], device: str) -> None:
        self._function, self._device, self._threads = function, device, 0
        self._prepared: tuple[Task, float] | None = None
        """The task, and the seconds of one call of it."""

    def __call__(self, verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out a verb, with plain data both ways. An exception of the function is a reply; float32 products are
        exact.

        An exception while the process is configured is the suite's own failure, and propagates.
        """
        job = {"job": msgspec.convert(arguments["job"], Job)} if "job" in arguments else {}
        act = partial(VERBS[verb], self, **{**arguments, **job})
        if verb == Bench.configure.__name__:
            return encode(act())
        with float32.exact():
            reply = attempt(act, self._threads)
        if isinstance(reply, NoResult) and verb == Bench.prepare.__name__:
            gc.collect()  # the exception may hold inputs in a reference cycle
        return encode(reply)

    def configure(self, threads: int, memory_limit: int) -> messages.Acknowledgement:
        """Give the process its number of threads and its share of memory in bytes; 0 leaves either as it is."""
        self._threads = threads
        set_threads(threads)
        limit_memory(memory_limit)
        return messages.Acknowledgement()

    def prepare(self, job: Job) -> messages.PreparedTask:
        """Make a task, time its first call and warm it up. Raises `DishonestTiming` where no time can be trusted."""
        self._prepared = None
        task = make_task(self._function, job, self._device, job.cache)
        first_call = task.stopwatch.first_call()
        warm_up, expected = task.stopwatch.warm_up()
        if not expected > 0:
            raise DishonestTiming("no time passes while it is called")
        if evidence := task.caches_outputs(expected):
            raise DishonestTiming(evidence)
        calls, expected = task.stopwatch.pace(expected)
        self._prepared = task, expected
        return messages.PreparedTask(task.making, first_call, warm_up, expected, calls, task.stopwatch.head_start)

    def enter(self, number: int) -> messages.RoundInputs:
        """Make the inputs of a round, and fill the cache."""
        task, expected = self._task
        return messages.RoundInputs(task.enter_round(number, expected))

    def sample(self, calls: int) -> messages.SampleTime:
        """Time `calls` calls on the inputs of the round. The benchmark's process times them, too."""
        task = self._task[0]
        seconds = task.stopwatch.sample(calls)
        task.copy_result()
        return messages.SampleTime(seconds, task.stopwatch.made)

    def idle(self) -> messages.Acknowledgement:
        """Do the work of a sample except its calls, so that the benchmark can measure the overhead of a request."""
        self._task[0].copy_result()
        return messages.Acknowledgement()

    def output_rows(self, rows: Rows) -> messages.OutputRows:
        """Rows of the output of the last timed call."""
        return messages.OutputRows(self._task[0].output_rows(rows))

    def exchange(self, channel: socket.socket, inputs: Layout, warm: int) -> messages.ReplyLayout:
        """Call on inputs that arrive over the channel, turn by turn, timed by the benchmark's process."""
        received = ReceivedInputs(self._task[0], inputs, warm)
        take_turns(channel, received.warm, received.input_buffers, received.reply)
        return messages.ReplyLayout(received.layout)  # type: ignore[arg-type]  # validated by the benchmark's process

    def release(self) -> messages.Acknowledgement:
        """Release the task and its tensors."""
        self._prepared = None
        return self.rest()

    def rest(self) -> messages.Acknowledgement:
        """Return PyTorch's cached memory to the device. The next round's first call is untimed."""
        if torch.device(self._device).type == "cuda":
            torch.cuda.empty_cache()
        return messages.Acknowledgement()

    def measure_memory(self, job: Job) -> messages.CallMemory:
        """The memory and the kernels of one call, on a GPU of the prepared task; see `measure_call`."""
        prepared = self._prepared[0] if self._prepared and torch.device(self._device).type == "cuda" else None
        return measure_call(self._function, job, self._device, prepared)

    def energy(self, calls: int, seconds: float) -> messages.Energy:
        """Make calls of `seconds` seconds in a row, for long enough to measure the energy of one.

        No cache is flushed between them: the energy of flushes would count as theirs.
        """
        made, task = 0, self._task[0]
        stopwatch = Stopwatch(task.call, before=task.before, device=self._device, cache="hot")
        with Meter(device_uuid(self._device) or self._device) as meter:
            began = perf_counter()
            while perf_counter() < began + ENERGY_SECONDS:
                stopwatch.sample(calls)
                made += calls
            busy = made * seconds / (perf_counter() - began)
        return messages.Energy(telemetry_of_one_call(meter.telemetry, made, busy, alone=task.before is None))

    def ceilings(self, dtype: str) -> messages.Ceilings:
        """The rates that the machine reaches in a dtype with this process's threads, without calling the function."""
        return messages.Ceilings(ceilings(dtype, self._device))

    @property
    def _task(self) -> tuple[Task, float]:
        if self._prepared is None:
            raise RuntimeError("no task is prepared")
        return self._prepared


def telemetry_of_one_call(telemetry: Mapping[str, Any], calls: int, busy: float, alone: bool) -> dict[str, Any]:
    """The telemetry of `calls` calls, with the joules of one call, or the reason why these are unknown.

    `busy` is the share of the time for which the device worked, `alone` whether nothing else ran between calls.
    """
    joules, reason = telemetry.get("joules"), ""
    if not alone:
        reason = "a forward precedes each backward: see forward and backward together"
    elif busy < BUSY:
        reason = f"the device was idle for {1 - busy:.0%} of the time of these calls: launching one takes longer"
    if joules is None or not reason:
        return {**telemetry, "joules": None if joules is None else joules / calls}
    return {**telemetry, "joules": None, "joules_absent": reason}


_METHODS = (
    *(Bench.configure, Bench.prepare, Bench.enter, Bench.sample, Bench.idle, Bench.output_rows, Bench.exchange),
    *(Bench.release, Bench.rest, Bench.measure_memory, Bench.energy, Bench.ceilings),
)
VERBS: dict[str, Callable[..., BenchReply | NoResult]] = {method.__name__: method for method in _METHODS}
"""The verbs of the service, by name."""


def begin() -> Callable[[Callable[..., Any], str], Bench]:
    """The service of a timed worker. It starts before the implementation is imported, which may replace modules.

    Objects from before the fork take part in garbage collection again, as in a new interpreter: calls that trigger a
    collection pay for it.
    """
    gc.unfreeze()
    return Bench


def begin_for_memory() -> Callable[[Callable[..., Any], str], Bench]:
    """The service of a worker that measures memory."""
    return Bench
