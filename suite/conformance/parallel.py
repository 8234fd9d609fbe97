"""`--jobs`: a pool of processes runs chunks of tests; the outcomes are those of one process, in the same order."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from msgspec import structs

from attnsuite.cases.tensors import seed, seeded
from attnsuite.conformance.check import Check, Failure, OutcomesAt
from attnsuite.conformance.request import CheckRequest
from attnsuite.conformance.session import Session, Target, single_threaded
from attnsuite.contracts import contract as contract_named
from attnsuite.model import Outcome, UsageError
from attnsuite.model.limits import EXIT_LIMIT, KILL_LIMIT, MAX_JOBS, check_jobs
from attnsuite.registry import Declaration, Loaded
from attnsuite.worker.sandbox.processes import ending
from attnsuite.worker.worker import Crash

CHUNK = 12
"""Tests of a chunk, at least: some 30 ms of work, so that processes end together without thousands of messages. The
dtypes of a case stay together: they share its numbers."""
TESTS_PER_JOB = 300
"""Tests for which another process pays: they take a second or two, and so does the start of the process."""


def jobs_of(jobs: int | None, request: CheckRequest, declarations: Sequence[Declaration]) -> int:
    """The number of processes that test: by default one per core that this process may use, fewer for few tests."""
    if jobs is not None:
        return jobs
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    session, tests = Session(request), 0
    for declaration in declarations if cores > 1 else ():
        with suppress(UsageError):  # its contract has no such case
            tests += session.count(declaration)
    return max(1, min(cores, MAX_JOBS, tests // TESTS_PER_JOB))


def session_of(
    request: CheckRequest, implementations: int, jobs: int, explains: bool = False, fail_fast: bool = False
) -> Session:
    """The session of a check of several implementations in `jobs` processes. UsageError for an invalid number."""
    check_jobs(jobs)
    options = (request, implementations > 1, explains, fail_fast)
    return Session(*options) if jobs == 1 else ParallelSession(*options, jobs=jobs)


@dataclass
class ParallelSession(Session):
    """A session whose tests run in several processes. As a context manager it ends them."""

    jobs: int = 2
    processes: list[Process] = field(default_factory=list)

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.process.terminate()  # all of them, before the first is waited for
        for process in self.processes:
            process.end()

    def outcomes_at(self, check: Check, target: Target) -> OutcomesAt | None:
        """The pool, for an implementation that other processes can load."""
        return None if isinstance(target, Loaded) else Pool(self, check, target).outcomes

    def process(self, place: int) -> Process:
        """The process of this number; a new one if it has not started, or has ended."""
        if place < len(self.processes) and not self.processes[place].ended:
            return self.processes[place]
        forked = self.request.device == "cpu" and _may_fork()
        context: Any = multiprocessing.get_context("fork" if forked else "spawn")
        ours, theirs = context.Pipe()
        inherited = [*(each.connection for each in self.processes if not each.ended), ours] if forked else []
        session = Session(self.request, self.keep_inputs, _tests=self._tests if forked else {})
        process = context.Process(target=serve, args=(theirs, inherited, session, seeded()), daemon=True)
        process.start()
        theirs.close()
        self.processes[place : place + 1] = [Process(process, ours)]
        return self.processes[place]


# Messages: (declaration, places) to a process; `Finished` and the traceback of an error back


@dataclass(frozen=True)
class Finished:
    """The outcome of the test at a place, with the failure that can be diagnosed."""

    place: int
    outcome: Outcome
    failure: Failure | None


def send(connection: Connection, message: Any) -> None:
    """Send a message. `Connection.send` would leave tensors in shared memory, for the other side to find."""
    connection.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))


# In this process


@dataclass
class Process:
    """This end of one process of the pool."""

    process: BaseProcess
    connection: Connection
    running: tuple[int, ...] = ()
    """The places of its chunk that have no outcome yet."""
    ended: bool = False

    def end(self, grace: float = 0.0) -> str:
        """End it and the processes that it has started, and return how it ended: `SIGSEGV`, `exit status 3`."""
        self.ended = True
        self.process.join(grace)
        self.connection.close()
        self.process.terminate()
        self.process.join(KILL_LIMIT)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        return ending(self.process.exitcode or 0)


@dataclass
class Pool:
    """Runs the tests of a check in the processes of a session."""

    session: ParallelSession
    check: Check
    target: Declaration
    chunks: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """The chunks that no process runs yet, by their numbers."""
    finished: dict[int, Outcome] = field(default_factory=dict)
    """The outcomes that have not been returned, by their places."""

    def outcomes(self, places: Sequence[int]) -> Generator[Outcome]:
        """The outcomes of the tests at these places, in their order. Closing it ends processes that still run tests."""
        self.chunks, self.finished = dict(enumerate(self._chunks(places))), {}
        try:
            for number in range(self.session.jobs):
                self._feed(number)
            for place in places:
                while place not in self.finished:
                    self._receive()
                yield self.finished.pop(place)
        finally:
            for process in self.session.processes:
                if process.running:
                    process.running = ()
                    process.end()

    def _chunks(self, places: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Consecutive places. Tests that need a worker are one chunk, so that just one worker is started for them."""
        tests = self.check.tests
        for in_worker, group in groupby(places, lambda place: tests[place][0].in_worker):
            chunk: tuple[int, ...] = ()
            for _, of_case in groupby(group, lambda place: tests[place][0]):
                if len(chunk) >= CHUNK and not in_worker:
                    yield chunk
                    chunk = ()
                chunk += tuple(of_case)
            yield chunk

    def _feed(self, number: int) -> None:
        """Give a process its next chunk, if possible one that it had for another implementation: it has the inputs."""
        if self.chunks:
            own = (chunk for chunk in self.chunks if chunk % self.session.jobs == number)
            process = self.session.process(number)
            process.running = self.chunks.pop(next(own, next(reversed(self.chunks))))
            with suppress(OSError):  # it has ended, as `_receive` finds
                send(process.connection, (self.target, process.running))

    def _receive(self) -> None:
        """Wait until a process sends a message or ends, and act on that."""
        living = [process for process in self.session.processes if not process.ended]
        ready = wait([each for process in living for each in (process.connection, process.process.sentinel)])
        for number, process in enumerate(self.session.processes):
            if process.connection in ready:
                try:
                    self._take(number, pickle.loads(process.connection.recv_bytes()))
                except (EOFError, ConnectionResetError):
                    self._lost(number)
            elif process.process.sentinel in ready:  # another process holds its connection open
                self._lost(number)

    def _take(self, number: int, message: Finished | str) -> None:
        if isinstance(message, str):
            raise RuntimeError(f"the suite's own code failed in a process of --jobs:\n{message}")
        self.finished[message.place] = message.outcome
        if message.failure:
            self.check.failures[message.outcome.case, message.outcome.dtype] = message.failure
        process = self.session.processes[number]
        process.running = tuple(place for place in process.running if place != message.place)
        if not process.running:
            self._feed(number)

    def _lost(self, number: int) -> None:
        """A process has ended: the test that it ran has crashed, and a new process runs the others."""
        process = self.session.processes[number]
        crash = Crash(process.end(grace=EXIT_LIMIT))
        if process.running:
            first, *others = process.running
            self.finished[first] = self.check.judged(self.check.test(*self.check.tests[first]), crash)
            if others:
                self.chunks[max(self.chunks, default=0) + self.session.jobs] = tuple(others)
        self._feed(number)


# In the processes of the pool


def serve(connection: Connection, inherited: Sequence[Connection], session: Session, number: int) -> None:
    """Run chunks until the parent closes the connection; numbers are drawn from the seed `number`.

    `inherited` are the parent's ends in a forked process: open here, they would outlive the parent.
    """
    for other in inherited:
        other.close()
    gc.freeze()  # inherited objects are never searched for cycles, and so not copied
    signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is for the parent. Processes started here receive it
    signal.signal(signal.SIGTERM, _leave)
    target: Declaration | None = None
    check: Check | Outcome | None = None
    with seed(number), single_threaded(session.request.device), ExitStack() as stack:
        try:
            while True:
                wanted, places = pickle.loads(connection.recv_bytes())
                if wanted != target:
                    stack.close()  # the processes of the implementation before
                    target, check = wanted, session.check(wanted, stack, prestart=False)
                assert check is not None
                for finished in _run(session, wanted, check, places):
                    send(connection, finished)
        except (EOFError, BrokenPipeError):
            pass  # the parent needs no more
        except Exception:
            send(connection, traceback.format_exc())


def _run(session: Session, target: Declaration, check: Check | Outcome, places: Sequence[int]) -> Iterator[Finished]:
    """The outcomes of the tests of an implementation at these places."""
    tests = [session.tests_of(target, contract_named(target.contract))[place] for place in places]
    if isinstance(check, Outcome):  # it could be loaded in the parent alone
        for place, (case, dtype) in zip(places, tests, strict=True):
            yield Finished(place, structs.replace(check, case=case.name, dtype=dtype), None)
        return
    for place, outcome in zip(places, check.outcomes(tests), strict=True):
        failure = check.failures.pop((outcome.case, outcome.dtype), None)
        yield Finished(place, outcome, replace(failure, test=None) if failure else None)


def _may_fork() -> bool:
    """Whether a process of the pool may be forked: JAX's threads hold locks that it would wait for."""
    return sys.platform == "linux" and "jax" not in sys.modules


def _leave(*_: object) -> None:
    """End this process and those that it has started at the first SIGTERM: the group's may come before the parent's."""
    signal.signal(signal.SIGTERM, lambda *_: None)  # another one would interrupt the cleaning up of the first
    sys.exit(0)
