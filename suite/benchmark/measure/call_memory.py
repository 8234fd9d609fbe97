"""The memory and the kernels of one call, measured in a copy of the process where that is possible."""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from msgspec.structs import replace

from attnsuite.benchmark.measure import kernels, memory
from attnsuite.benchmark.measure.failures import attempt
from attnsuite.benchmark.measure.messages import CallMemory, Job, NoResult, decode, encode
from attnsuite.benchmark.measure.task import Task
from attnsuite.contracts import contract
from attnsuite.worker.allocator import return_freed_memory


class OwnProcess:
    """The process of one implementation, made before that is imported.

    The threads that it has then are the suite's and NumPy's: OpenBLAS ends its own before a fork, and starts others
    where they are needed. Where it is `timed`, objects that were imported before a fork are garbage collected again, as
    in a process that was started by itself: a call that collects garbage pays for it.
    """

    def __init__(self, timed: bool = True) -> None:
        self._suite_threads = _threads()
        if timed:
            gc.unfreeze()

    @property
    def copyable(self) -> bool:
        """Whether a forked copy would lack nothing: a fork copies one thread, and here are none but the suite's own."""
        return 0 < _threads() <= self._suite_threads

    def limit_memory(self, limit: int) -> None:
        """Allow it this many bytes, and have the system kill it before any other process when memory runs out."""
        score = Path("/proc/self/oom_score_adj")
        if limit and score.exists():
            with suppress(OSError):  # a container may have /proc to read only
                score.write_text("1000")
            _, hard = resource.getrlimit(resource.RLIMIT_DATA)
            resource.setrlimit(resource.RLIMIT_DATA, (limit if hard < 0 else min(limit, hard), hard))


class MemoryMeter:
    """Measures the memory of calls of one function. `process` is the function's own, if it has one.

    What calls leave behind would hide what later ones take. So a process that has made no call of this size has a
    forked copy of itself make it; one with threads, which a copy would lack, makes the call itself.
    """

    def __init__(self, function: Callable[..., Any], device: str, process: OwnProcess | None) -> None:
        self._function, self._device, self._process = function, device, process
        self.threads = 0
        self._rehearsed: set[tuple[str, str]] = set()
        """The contracts and dtypes of which a small call was made."""

    def measure_memory(self, job: Job, rehearse: bool, prepared: Task | None = None) -> CallMemory | NoResult:
        """Bytes by meter of one call, and the kernels that it ran; a call of the task that is `prepared`, if any.

        With `rehearse` a small call is made before, so that no copy has to load or to compile what every call needs.
        """
        if torch.device(self._device).type != "cpu":
            return self._weighed(job, prepared)  # an allocator's peak hides nothing
        _settle()
        if rehearse and self._copyable and (job.contract, job.dtype) not in self._rehearsed:
            self._rehearsed.add((job.contract, job.dtype))
            self._rehearse(job)
        if not self._copyable:
            return replace(self._weighed(job), spent=True)
        measure_memory = partial(attempt, partial(self._weighed, job), self.threads, alone=True)
        return decode(CallMemory, _answer_of_a_copy(lambda: encode(measure_memory())))

    def _rehearse(self, job: Job) -> None:
        """Make a small call, forward alone: a copy cannot use autograd once its parent has.

        No call is made of a model: each workload has another, which would have to be made before.
        """
        if not contract(job.contract).workloads()[0].is_model:
            attempt(lambda: self._small_call(job, "forward")(), self.threads, alone=True)

    @property
    def _copyable(self) -> bool:
        return self._process is not None and self._process.copyable

    def _weighed(self, job: Job, prepared: Task | None = None) -> CallMemory:
        """The memory of one call, then the kernels of others: the profiler leaves memory behind."""
        task = prepared or make_task(self._function, job, self._device)
        small = task.call_on_one_item if task.is_model else self._small_call(job, job.direction)

        def tried() -> None:
            with suppress(Exception):  # a function may refuse so small a call
                small()

        meters = memory.memory_of_call(task.whole_call, self._device, tried)
        return CallMemory(meters | {"output": float(task.output_bytes)}, kernels.kernels(task.whole_call, self._device))

    def _small_call(self, job: Job, direction: str) -> Callable[[], None]:
        smallest = contract(job.contract).workloads()[0]
        return Task(self._function, smallest, job.dtype, direction, self._device, "hot").whole_call


def make_task(function: Callable[..., Any], job: Job, device: str, cache: str = "hot") -> Task:
    """The task of a job, in this process."""
    workload = contract(job.contract).workload(job.workload).under(job.conventions)
    return Task(function, workload, job.dtype, job.direction, device, cache)


def _settle() -> None:
    """Have this process give back what it frees, so that what a call takes is seen, and calibrate the meter."""
    return_freed_memory()
    with suppress(OSError):  # no /proc: not Linux
        memory.calibrated()


def _answer_of_a_copy(answer: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a forked copy of this process answers, as JSON. If the copy dies, this process dies of the same."""
    reading, writing = os.pipe()
    with _children_can_be_awaited():
        copy = os.fork()
        if copy == 0:
            _answer_and_exit(answer, reading, writing)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            text = pipe.read()
        ended = os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
    if ended < 0:
        os.kill(os.getpid(), -ended)
    if ended or not text:
        os._exit(ended)
    data: dict[str, Any] = json.loads(text)
    return data


def _answer_and_exit(answer: Callable[[], dict[str, Any]], reading: int, writing: int) -> None:
    status = 1
    try:
        os.close(reading)
        with os.fdopen(writing, "w") as pipe:
            json.dump(answer(), pipe)
        status = 0
    finally:
        os._exit(status)


@contextmanager
def _children_can_be_awaited() -> Iterator[None]:
    """Have the system keep the status of children that end, also where the implementation has told it not to."""
    before = signal.getsignal(signal.SIGCHLD)
    if before is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, before)


def _threads() -> int:
    """The threads of this process; 0 where the system does not tell."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.exists() else 0
