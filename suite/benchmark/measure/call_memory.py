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
    """The process of one implementation, created before the implementation is imported.

    Its threads at that time are the suite's and NumPy's: OpenBLAS ends its own before a fork, and starts others on
    demand. In a `timed` process, objects from before the fork take part in garbage collection again, as in a new
    interpreter: calls that trigger a collection pay for it.
    """

    def __init__(self, timed: bool = True) -> None:
        self._suite_threads = _threads()
        if timed:
            gc.unfreeze()

    @property
    def copyable(self) -> bool:
        """Whether a forked copy is complete: a fork copies one thread, so the implementation may have started none."""
        return 0 < _threads() <= self._suite_threads

    def limit_memory(self, limit: int) -> None:
        """Limit it to this many bytes, and have the system kill it before other processes when memory runs out."""
        score = Path("/proc/self/oom_score_adj")
        if limit and score.exists():
            with suppress(OSError):  # /proc may be read-only in a container
                score.write_text("1000")
            _, hard = resource.getrlimit(resource.RLIMIT_DATA)
            resource.setrlimit(resource.RLIMIT_DATA, (limit if hard < 0 else min(limit, hard), hard))


class MemoryMeter:
    """Measures the memory of calls of one function. `process` is the function's own, or None.

    Memory left by calls would hide that of later ones. So a process without earlier calls of this size makes the call
    in a forked copy; a process with threads, which a copy would lack, makes the call itself.
    """

    def __init__(self, function: Callable[..., Any], device: str, process: OwnProcess | None) -> None:
        self._function, self._device, self._process = function, device, process
        self.threads = 0
        self._rehearsed: set[tuple[str, str]] = set()
        """The contracts and dtypes with an earlier small call."""

    def measure(self, job: Job, rehearse: bool, prepared: Task | None = None) -> CallMemory | NoResult:
        """Bytes by meter of one call, and its kernels; a call of the `prepared` task, if any.

        With `rehearse` a small call comes first, so that no copy has to load or compile what every call needs.
        """
        if torch.device(self._device).type != "cpu":
            return self._measured(job, prepared)  # an allocator's peak hides nothing
        _settle()
        if rehearse and self._copyable and (job.contract, job.dtype) not in self._rehearsed:
            self._rehearsed.add((job.contract, job.dtype))
            self._rehearse(job)
        if not self._copyable:
            return replace(self._measured(job), spent=True)
        measured = partial(attempt, partial(self._measured, job), self.threads, alone=True)
        return decode(CallMemory, _result_of_copy(lambda: encode(measured())))

    def _rehearse(self, job: Job) -> None:
        """Make a small forward call; not a backward, because a copy cannot use autograd after its parent has.

        Models are skipped: each workload has its own, which would have to be built first.
        """
        if not contract(job.contract).workloads()[0].is_model:
            attempt(lambda: self._small_call(job, "forward")(), self.threads, alone=True)

    @property
    def _copyable(self) -> bool:
        return self._process is not None and self._process.copyable

    def _measured(self, job: Job, prepared: Task | None = None) -> CallMemory:
        """The memory of one call, then the kernels of others, because the profiler allocates memory."""
        task = prepared or make_task(self._function, job, self._device)
        small = task.call_on_one_item if task.is_model else self._small_call(job, job.direction)

        def warm() -> None:
            with suppress(Exception):  # a function may reject a small call
                small()

        meters = memory.memory_of_call(task.whole_call, self._device, warm)
        return CallMemory(meters | {"output": float(task.output_bytes)}, kernels.kernels(task.whole_call, self._device))

    def _small_call(self, job: Job, direction: str) -> Callable[[], None]:
        smallest = contract(job.contract).workloads()[0]
        return Task(self._function, smallest, job.dtype, direction, self._device, "hot").whole_call


def make_task(function: Callable[..., Any], job: Job, device: str, cache: str = "hot") -> Task:
    """The task of a job, in this process."""
    workload = contract(job.contract).workload(job.workload).under(job.conventions)
    return Task(function, workload, job.dtype, job.direction, device, cache)


def _settle() -> None:
    """Return freed memory to the system, so that the meter sees each call's memory, and calibrate the meter."""
    return_freed_memory()
    with suppress(OSError):  # no /proc: not Linux
        memory.calibrated()


def _result_of_copy(action: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of `action` in a forked copy of this process, as JSON. This process dies if the copy does."""
    reading, writing = os.pipe()
    with _children_can_be_awaited():
        copy = os.fork()
        if copy == 0:
            _write_and_exit(action, reading, writing)
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


def _write_and_exit(action: Callable[[], dict[str, Any]], reading: int, writing: int) -> None:
    status = 1
    try:
        os.close(reading)
        with os.fdopen(writing, "w") as pipe:
            json.dump(action(), pipe)
        status = 0
    finally:
        os._exit(status)


@contextmanager
def _children_can_be_awaited() -> Iterator[None]:
    """Have the system keep the status of ended children, even if the implementation ignores SIGCHLD."""
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
    """The number of threads of this process; 0 if the system does not report it."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.exists() else 0
