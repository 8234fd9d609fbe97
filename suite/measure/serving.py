"""What a worker answers about time and memory: each verb takes (function, device, arguments) and returns plain data.

One task of a function is prepared at a time. What the function does to itself (an exception, a memory error,
NotImplementedError) is an answer `{"status": …, "detail": …}`; where nothing went wrong there is no status in it.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from suite.asking import Workload
from suite.contracts import contract
from suite.machine import nvidia
from suite.measure import Escaped
from suite.measure import ceilings as ceilings_of
from suite.measure import kernels as kernels_of
from suite.measure import memory as memory_of
from suite.measure.task import Task
from suite.registry.loading import in_one_line

SOAK = 2.0
"""Seconds of calls over which energy is measured."""
LONG, IN_VAIN = 0.3, 2
"""A call of so many seconds is profiled and weighed at once, where it takes enough for that; after so many that did
not, no more is tried. None of a model: it runs so much that the profiler takes too much."""

Function = Callable[..., Any]
Arguments = Mapping[str, Any]

OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "bad_alloc", "bad allocation",
                 "resource_exhausted", "unable to allocate")  # fmt: skip
"""How libraries say it."""


class Dishonest(Exception):
    """Its times would say nothing of what it computes; the message says why."""


_in_vain: Counter[int] = Counter()
"""How many of a function's long calls took too little to be weighed under the profiler's eyes, by the function's id."""
_tasks: dict[int, Task] = {}
"""The task that is prepared, by the function's id: several functions may share a process, the suite's own."""


def _threads() -> int:
    """The threads of this process; 0 where the system does not tell."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.exists() else 0


class _Process:
    alone = False
    """Whether it is an implementation's own: nobody interrupts it then, but the implementation itself."""
    own_threads = 0
    """Those that it has before the implementation is imported: the suite's and NumPy's, whose OpenBLAS ends its own
    before a copy is made, and starts others where they are needed."""


def begin() -> None:
    """Count the threads that this process has; before an implementation is imported.

    What was imported before a fork is garbage collection's again: what collects in a call pays for it.
    """
    _Process.own_threads = _threads()
    gc.unfreeze()
    gc.collect()


def settle(function: Function, device: str, arguments: Arguments) -> dict[str, Any]:
    """Give this process its thread count and its share of memory, and let the system take it first if memory ends."""
    _Process.alone = True
    _set_threads(arguments["threads"])
    limit, held = arguments["memory_limit"], Path("/proc/self/oom_score_adj")
    if limit and held.exists():
        with suppress(OSError):  # a container may have /proc to read only
            held.write_text("1000")
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (limit if hard < 0 else min(limit, hard), hard))
    return {}


def prepare(function: Function, device: str, arguments: Arguments) -> dict[str, Any]:
    """Make a task, time its first call and warm it up."""
    _tasks.pop(id(function), None)
    answer: dict[str, Any] = {}
    with _answered(answer, arguments["threads"]):
        task = Task(function, *_asked(arguments), device, arguments["cache"])
        answer["making"] = task.making
        answer["first_call"] = task.stopwatch.first_call()
        answer["warm_up"], answer["expected"] = task.stopwatch.warm_up()
        if not answer["expected"] > 0:
            raise Dishonest("no time passes while it is called")
        if remembers := task.remembers(answer["expected"]):
            raise Dishonest(remembers)
        answer["calls"], answer["expected"] = task.stopwatch.pace(answer["expected"])
        _tasks[id(function)] = task
    return answer


def sample(function: Function, device: str, arguments: Arguments) -> dict[str, Any]:
    """One sample, on the inputs of that round."""
    answer: dict[str, Any] = {}
    with _answered(answer, arguments["threads"]):
        task = _tasks[id(function)]
        answer["warmed"] = task.turn(arguments["number"], arguments["expected"])
        answer["seconds"] = task.stopwatch.sample(arguments["calls"])
        answer["made"] = task.stopwatch.made
        task.keep()
    return answer


def rows(function: Function, device: str, arguments: Arguments) -> dict[str, Any]:
    """Rows of what the last timed call returned."""
    answer: dict[str, Any] = {}
    with _answered(answer, arguments["threads"]):
        answer["rows"] = _tasks[id(function)].found(arguments["rows"])
    return answer


def load(function: Function, device: str, arguments: Arguments) -> dict[str, Any]:
    """Make inputs by these numbers, as many as there is room for; how many."""
    answer: dict[str, Any] = {}
    with _answered(answer, arguments["threads"]):
        answer["loaded"] = _tasks[id(function)].load(arguments["numbers"])
    return answer


def prove(function: Function, device: str, arguments: Arguments) -> dict[str, Any]:
    """Give the inputs that were made to one call each, so many times over; whoever asks takes the time."""
    answer: dict[str, Any] = {}
    with _answered(answer, arguments["threads"]):
        _tasks[id(function)].prove(arguments["passes"])
    return answer


def proof(function: Function, device: str, arguments: Arguments) -> dict[str, Any]:
    """Rows of what each of those calls returned, stacked."""
    answer: dict[str, Any] = {}
    with _answered(answer, arguments["threads"]):
        answer["found"] = _tasks[id(function)].proof(arguments["rows"])
    return answer


def release(function: Function, device: str, arguments: Arguments) -> dict[str, Any]:
    """Let go of the task and its tensors."""
    _tasks.pop(id(function), None)
    if torch.device(device).type == "cuda":
        torch.cuda.empty_cache()
    return {}


def warm(function: Function, device: str, arguments: Arguments) -> dict[str, Any]:
    """Make a small call, so that no copy has to load or to compile what every call needs; whether copies still lack
    nothing, for it may have started threads.

    Never backward: autograd, once used, is of no use to a copy. And not of a model: each has its own, which would have
    to be made before.
    """
    if torch.device(device).type != "cpu" or not _is_alone() or _named(arguments)[0].is_model:
        return {"alone": True}
    _calibrated()
    with _answered({}, arguments["threads"]):
        _small(function, device, {**arguments, "direction": "forward"})()
    return {"alone": _is_alone()}


def memory(function: Function, device: str, arguments: Arguments) -> dict[str, Any]:
    """Bytes by meter of one call, and the kernels that it ran.

    What calls leave behind would hide what later ones take. So a process that has made no call of this size has a copy
    of itself make it; one that has threads, which no copy would have, does it itself and is `spent`.
    """
    weigh = partial(_weighed, function, device, arguments)
    if torch.device(device).type != "cpu":
        return weigh()  # an allocator's peak hides nothing
    if not _is_alone():
        answer = weigh()
        return answer if "status" in answer else {**answer, "spent": True}
    _calibrated()
    long = arguments["expected"] > LONG and not _named(arguments)[0].is_model
    if long and _in_vain[id(function)] < IN_VAIN:
        if answer := _by_a_copy(partial(_profiled, function, device, arguments)):
            return answer
        _in_vain[id(function)] += 1
    return _by_a_copy(weigh)


def _calibrated() -> None:
    with suppress(OSError):  # no /proc: not Linux
        memory_of.calibrated()


def _profiled(function: Function, device: str, arguments: Arguments) -> dict[str, Any]:
    """The same, of one call for both; nothing where the profiler takes too much beside the call itself."""
    answer: dict[str, Any] = {}
    with _answered(answer, arguments["threads"]):
        task, small = _to_weigh(function, device, arguments)
        looks: list[kernels_of.Look] = []
        found = memory_of.of_large_call(
            lambda: looks.append(kernels_of.look(task.once, device)), lambda: kernels_of.look(small, device)
        )
        if found is not None:
            answer["memory"] = found | {"output": float(task.output_bytes)}
            answer["kernel"] = kernels_of.named(looks, device)
    return answer


def _weighed(function: Function, device: str, arguments: Arguments) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    with _answered(answer, arguments["threads"]):
        task, small = _to_weigh(function, device, arguments)
        found = memory_of.of_call(task.once, device, small)
        answer["memory"] = found | {"output": float(task.output_bytes)}
        answer["kernel"] = kernels_of.kernels(task.once, device)  # last: the profiler leaves memory behind
    return answer


def _to_weigh(function: Function, device: str, arguments: Arguments) -> tuple[Task, Callable[[], None]]:
    """The task and a small call, or none: what refuses so small a one may do what is asked of it."""
    task = Task(function, *_asked(arguments), device, "hot")
    call = task.on_one_item if task.is_model else _small(function, device, arguments)

    def tried() -> None:
        with suppress(Exception):
            call()

    return task, tried


def _small(function: Function, device: str, arguments: Arguments) -> Callable[[], None]:
    """A small call in the same direction, which loads and compiles what every call needs."""
    return Task(function, _named(arguments)[0], arguments["dtype"], arguments["direction"], device, "hot").once


def _is_alone() -> bool:
    """Whether this process has no threads but the suite's own, so that a copy of it lacks nothing."""
    return _Process.alone and 0 < _threads() <= _Process.own_threads


def _by_a_copy(answer: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a copy of this process answers. If the copy dies, so does this process."""
    reading, writing = os.pipe()
    with _children_can_be_awaited():
        copy = os.fork()
        if copy == 0:
            status = 1
            try:
                os.close(reading)
                with os.fdopen(writing, "w") as pipe:
                    json.dump(answer(), pipe)
                status = 0
            finally:
                os._exit(status)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            said = pipe.read()
        ended = os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
    if ended < 0:
        os.kill(os.getpid(), -ended)
    if ended or not said:
        os._exit(ended)
    found: dict[str, Any] = json.loads(said)
    return found


@contextmanager
def _children_can_be_awaited() -> Iterator[None]:
    """Where the implementation ignores what becomes of its children the system forgets it, but not meanwhile."""
    before = signal.getsignal(signal.SIGCHLD)
    if before is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, before)


def energy(function: Function, device: str, arguments: Arguments) -> dict[str, Any]:
    """What the device does during calls in a row, for long enough that its energy counter tells; joules of one call."""
    answer: dict[str, Any] = {}
    with _answered(answer, arguments["threads"]):
        calls, watch = 0, _tasks[id(function)].stopwatch
        with nvidia.meter(memory_of.device_uuid(device) or device) as meter:
            until = perf_counter() + SOAK
            while perf_counter() < until:
                watch.sample(arguments["calls"])
                calls += arguments["calls"]
        joules = meter.telemetry.get("joules")
        answer["telemetry"] = {**meter.telemetry, "joules": None if joules is None else joules / calls}
    return answer


def ceilings(function: Function, device: str, arguments: Arguments) -> dict[str, Any]:
    """What the machine reaches in a dtype with the threads that this process has; the function is not called."""
    answer: dict[str, Any] = {}
    with _answered(answer, arguments["threads"]):
        answer["ceilings"] = ceilings_of.ceilings(arguments["dtype"], device)
    return answer


def failure(error: BaseException) -> dict[str, str]:
    """What became of a call that raised."""
    said = in_one_line(error)
    if isinstance(error, NotImplementedError):
        return {"status": "declined", "detail": said.partition(": ")[2] or "NotImplementedError without a reason"}
    if isinstance(error, Escaped | Dishonest):
        return {"status": "refused", "detail": str(error)}
    short = isinstance(error, MemoryError | torch.OutOfMemoryError)
    if short or any(words in said.lower() for words in OUT_OF_MEMORY):
        return {"status": "out_of_memory", "detail": said}
    return {"status": "raised", "detail": said}


def _asked(arguments: Arguments) -> tuple[Workload, str, str]:
    (workload,) = (each for each in _named(arguments) if each.name == arguments["workload"])
    return workload, arguments["dtype"], arguments["direction"]


def _named(arguments: Arguments) -> Sequence[Workload]:
    """The workloads of the contract that is asked about, a small one first."""
    return contract(arguments["contract"]).workloads()


@contextmanager
def _answered(answer: dict[str, Any], threads: int) -> Iterator[None]:
    """Turn what the function raises, or does to the process, into the answer."""
    default = torch.get_default_dtype()
    failed: dict[str, str] = {}
    try:
        yield
    except BaseException as error:  # whatever a submission raises is its answer
        if isinstance(error, KeyboardInterrupt) and not _Process.alone:
            raise
        failed = failure(error)
    if threads and torch.get_num_threads() != threads:
        detail = f"it changed the number of threads from {threads} to {torch.get_num_threads()}"
        failed = {"status": "refused", "detail": detail}
        _set_threads(threads)
    if torch.get_default_dtype() != default:
        failed = {"status": "refused", "detail": f"it changed the default dtype to {torch.get_default_dtype()}"}
        torch.set_default_dtype(default)
    if failed:
        answer.clear()
        answer.update(failed)


def _set_threads(threads: int) -> None:
    if threads and torch.get_num_threads() != threads:  # to set what is so would start some
        torch.set_num_threads(threads)
