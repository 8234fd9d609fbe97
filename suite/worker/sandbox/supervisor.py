"""The start of a worker's process, and the supervisor of a sandboxed one, which exits with the worker's status."""

from __future__ import annotations

import os
import resource
import signal
import sys
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

import msgspec
from msgspec.structs import replace

from attnsuite.worker.sandbox import chosen
from attnsuite.worker.sandbox.mechanism import Space, move_in
from attnsuite.worker.sandbox.namespaces import enter, protect_system, show_own_processes
from attnsuite.worker.sandbox.processes import die_with_the_parent, end_descendants
from attnsuite.worker.sandbox.system import DIE_WITH_PARENT, NEW_MOUNTS, NEW_PROCESSES, prctl

WORKER = "attnsuite.worker.serving"
"""The module that every worker runs. It imports PyTorch, which a supervisor does without."""


def main(channel: int, life: int, space: Space | None) -> None:
    """In a new process: set up the sandbox, if there is one, then run as a worker."""
    die_with_the_parent(life)
    if space:
        surround(space, life)
    import_module(WORKER).main(channel, life, sandboxed=space is not None)


def surround(space: Space, life: int) -> None:
    """Fork the worker, in which alone this returns, inside the sandbox.

    The calling process stays behind as the supervisor and exits with the worker's status. It keeps `life`, which kills
    it when the suite ends, whatever the worker does with its own descriptors.
    """
    mechanisms = chosen(space.mechanisms)
    namespaces = 0
    for mechanism in mechanisms:
        namespaces |= mechanism.namespaces
        if mechanism.before:
            mechanism.before(space)
    if namespaces:
        enter(namespaces)
    for mechanism in mechanisms:
        if mechanism.around:
            mechanism.around(space)
    if namespaces & NEW_PROCESSES:
        _begin_processes(life, own_mounts=bool(namespaces & NEW_MOUNTS))
    elif worker := os.fork():
        _stay_behind(life)
        status = _status_of(worker)
        end_descendants(os.getpid())
        _end_as(status)
    with suppress(OSError):  # not Linux
        prctl(DIE_WITH_PARENT, signal.SIGKILL)
    space = replace(space, namespaced=bool(namespaces & NEW_PROCESSES))
    move_in(space)
    for mechanism in mechanisms:
        if mechanism.within:
            mechanism.within(space)


def _begin_processes(life: int, own_mounts: bool) -> None:
    """Start the first process of a PID namespace and, as its child, the worker, in which alone this returns.

    The first process cannot be the worker: its signals to itself have no effect, and it adopts orphans.
    """
    reading, writing = os.pipe()
    first = os.fork()
    if first:
        _stay_behind(reading, life)
        _, status = os.waitpid(first, 0)
        worker_status = os.read(reading, 16)
        _end_as(int(worker_status) if worker_status else status)
    prctl(DIE_WITH_PARENT, signal.SIGKILL)
    if own_mounts:
        with suppress(OSError):  # a container that hides parts of /proc forbids a new mount
            show_own_processes()
            protect_system()
    worker = os.fork()
    if worker:
        _stay_behind(writing)
        os.write(writing, str(_status_of(worker)).encode())
        os._exit(0)  # the system then ends the namespace's other processes
    os.close(reading)
    os.close(writing)


def _stay_behind(*open_descriptors: int) -> None:
    """Close the worker's descriptors: the suite sees the end of a pipe only when no process holds it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    below = 3
    for descriptor in sorted(open_descriptors):
        os.closerange(below, descriptor)
        below = descriptor + 1
    os.closerange(below, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _status_of(worker: int) -> int:
    """The worker's status after its end; orphans are reaped meanwhile."""
    while True:
        process, status = os.wait()
        if process == worker:
            return status


def _end_as(status: int) -> NoReturn:
    """Exit with the same status, or by the same signal."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), msgspec.json.decode(sys.argv[3], type=Space | None))
