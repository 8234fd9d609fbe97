"""The memory and the kernels of one call."""

from __future__ import annotations

import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from attnsuite.benchmark.measure import kernels, memory
from attnsuite.benchmark.measure.messages import CallMemory, Job
from attnsuite.benchmark.measure.task import Task
from attnsuite.contracts import contract
from attnsuite.worker.allocator import return_freed_memory


def limit_memory(limit: int) -> None:
    """Limit this process to as many bytes, and have the system kill it before others when memory runs out."""
    score = Path("/proc/self/oom_score_adj")
    if limit and score.exists():
        with suppress(OSError):  # /proc may be read-only in a container
            score.write_text("1000")
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (limit if hard < 0 else min(limit, hard), hard))


def make_task(function: Callable[..., Any], job: Job, device: str, cache: str = "hot") -> Task:
    """The task of a job, in this process."""
    workload = contract(job.contract).workload(job.workload).under(job.conventions)
    return Task(function, workload, job.dtype, job.direction, device, cache)


def measure_call(function: Callable[..., Any], job: Job, device: str, prepared: Task | None = None) -> CallMemory:
    """The memory of one call of the `prepared` task, or of a new one, then the kernels of other calls, because the
    profiler allocates memory.

    On a CPU memory that earlier calls left hides that of later ones, so each measurement needs a new process. A small
    call of the same kind comes first; it loads what every call needs.
    """
    if torch.device(device).type == "cpu":
        return_freed_memory()  # so that the meter sees the memory of each call
        with suppress(OSError):  # no /proc: not Linux
            memory.calibrated()
    task = prepared or make_task(function, job, device)
    smallest = contract(job.contract).workloads()[0]

    def warm() -> None:
        with suppress(Exception):  # a function may reject a small call
            if task.is_model:
                task.call_on_one_item()
            else:
                Task(function, smallest, job.dtype, job.direction, device, "hot").whole_call()

    meters = memory.memory_of_call(task.whole_call, device, warm)
    return CallMemory(meters | {"output": float(task.output_bytes)}, kernels.kernels(task.whole_call, device))
