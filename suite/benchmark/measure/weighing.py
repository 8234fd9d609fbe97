"""What one call takes of memory and which kernels it runs, measured in a copy of the process where that is possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from attnsuite.benchmark.measure import kernels, memory
from attnsuite.benchmark.measure.failures import Result, attempt
from attnsuite.benchmark.measure.own_process import OwnProcess, answer_of_a_copy
from attnsuite.benchmark.measure.protocol import Failed, Job, Rehearsed, Weighed, read, written
from attnsuite.benchmark.measure.task import Task
from attnsuite.cases import Workload
from attnsuite.contracts import contract
from attnsuite.worker.allocator import return_freed_memory

LONG_CALL = 0.3
"""Seconds: a call that takes longer is weighed and profiled at the same time, so that it need not be made twice."""
MOST_LIGHT_CALLS = 2
"""How many long calls of a function may turn out too light to be weighed while the profiler allocates beside them.
After that its calls are weighed and profiled one after the other from the start."""


class Scale:
    """Weighs calls of one function. `process` is the one that the function has for itself, if it has one.

    What calls leave behind would hide what later ones take. So a process that has made no call of this size has a
    forked copy of itself make it; one with threads, which a copy would lack, makes the call itself.
    """

    def __init__(self, function: Callable[..., Any], device: str, process: OwnProcess | None) -> None:
        self._function, self._device, self._process = function, device, process
        self.threads = 0
        self._light_calls = 0

    def rehearse(self, job: Job) -> Rehearsed:
        """Make a small call, so that no copy has to load or to compile what every call needs.

        It is forward alone, for a copy cannot use autograd once its parent has. No call is made of a model: each
        workload has another, which would have to be made before.
        """
        if torch.device(self._device).type != "cpu" or not self._copyable or _workloads(job)[0].is_model:
            return Rehearsed(True)
        _settle()
        self._attempt(lambda: self._small_call(job, "forward")())
        return Rehearsed(self._copyable)  # the small call may have started threads

    def weigh(self, job: Job, expected: float, prepared: Task | None = None) -> Weighed | Failed:
        """Bytes by meter of one call, which takes about `expected` seconds, and the kernels that it ran.

        It is a call of the task that is `prepared`, where there is one.
        """
        if torch.device(self._device).type != "cpu":
            return self._weigh_alone(job, prepared)  # an allocator's peak hides nothing
        _settle()
        if not self._copyable:
            return replace(self._weigh_alone(job), spent=True)
        if expected > LONG_CALL and not _workloads(job)[0].is_model and self._light_calls < MOST_LIGHT_CALLS:
            if found := self._in_a_copy(self._weigh_profiled, job):
                return read(Weighed, found)
            self._light_calls += 1
        return read(Weighed, self._in_a_copy(self._weigh_alone, job))

    @property
    def _copyable(self) -> bool:
        return self._process is not None and self._process.copyable

    def _in_a_copy(self, weigh: Callable[[Job], Weighed | None], job: Job) -> dict[str, Any]:
        """What a forked copy of this process answers, as data; empty where it weighs nothing."""

        def answer() -> dict[str, Any]:
            found = self._attempt(partial(weigh, job))
            return {} if found is None else written(found)

        return answer_of_a_copy(answer)

    def _weigh_alone(self, job: Job, prepared: Task | None = None) -> Weighed:
        """The memory of one call, then the kernels of others: the profiler leaves memory behind."""
        task, small = (prepared, prepared.whole_call) if prepared else self._task(job)
        found = memory.of_call(task.whole_call, self._device, small)
        found |= {"output": float(task.output_bytes)}
        return Weighed(found, kernels.kernels(task.whole_call, self._device))

    def _weigh_profiled(self, job: Job) -> Weighed | None:
        """Memory and kernels of the same call; None where the profiler takes too much memory beside the call's."""
        task, small = self._task(job)
        looks: list[kernels.Look] = []
        found = memory.of_large_call(
            lambda: looks.append(kernels.look(task.whole_call, self._device)),
            lambda: kernels.look(small, self._device),
        )
        if found is None:
            return None
        return Weighed(found | {"output": float(task.output_bytes)}, kernels.named(looks, self._device))

    def _task(self, job: Job) -> tuple[Task, Callable[[], None]]:
        """The task, and a small call that loads what the task's call needs. A function may refuse so small a call."""
        task = make_task(self._function, job, self._device)
        small = task.call_on_one_item if task.is_model else self._small_call(job, job.direction)

        def tried() -> None:
            with suppress(Exception):
                small()

        return task, tried

    def _small_call(self, job: Job, direction: str) -> Callable[[], None]:
        workload = _workloads(job)[0]
        return Task(self._function, workload, job.dtype, direction, self._device, "hot").whole_call

    def _attempt(self, act: Callable[[], Result]) -> Result | Failed:
        return attempt(act, self.threads, alone=self._process is not None)


def make_task(function: Callable[..., Any], job: Job, device: str, cache: str = "hot") -> Task:
    """The task of a job, in this process."""
    workload = contract(job.contract).workload(job.workload).under(job.conventions)
    return Task(function, workload, job.dtype, job.direction, device, cache)


def _workloads(job: Job) -> Sequence[Workload]:
    """The workloads of the job's contract, a small one first."""
    return contract(job.contract).workloads()


def _settle() -> None:
    """Have this process give back what it frees, so that what a call takes is seen, and calibrate the meter."""
    return_freed_memory()
    with suppress(OSError):  # no /proc: not Linux
        memory.calibrated()
