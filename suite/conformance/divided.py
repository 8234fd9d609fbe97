"""A check divided between processes: what each of them finds is put in order again, as if one had asked everything."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from multiprocessing.connection import wait
from typing import Any

from attnsuite.cases import Call, Case
from attnsuite.cases.tensors import seeded
from attnsuite.conformance.asker import Ask, AskCalls, Failed, FindMisdeclared, Found, Open, Opened, Process, serve
from attnsuite.conformance.questions import Answer, Subject
from attnsuite.conformance.runner import Check
from attnsuite.conformance.session import CheckRequest, Session, alone, unaskable
from attnsuite.contracts import contract as contract_named
from attnsuite.contracts import names as contract_names
from attnsuite.model import Outcome, Status, UsageError
from attnsuite.model.limits import LAST_WORDS_LIMIT, MOST_JOBS
from attnsuite.model.options import check_jobs
from attnsuite.registry import Declaration, Loaded
from attnsuite.registry.signatures import in_signature
from attnsuite.worker import Died, copies

BATCH = 12
"""Questions that a process is given at once, at least: some 30 ms of work, so that processes end together, and hundreds
of messages in a check rather than thousands. The dtypes of a case are not divided: they share its numbers."""
AHEAD = 2
"""Batches that a process has at least, while there are any: the one that it asks, lest it waits, and the next."""
MOST_AHEAD = 8
"""Batches that it has at most: some 0.3 s of work. Meanwhile this process may look for the name of a mistake, which
takes about as long, and gives nobody anything."""
FIRST = 0
"""The process that alone asks what is asked in a worker, so that just one worker has to be started for that."""

TESTS_PER_JOB = 300
"""Tests for which another process pays: they take a second or two, and so does the start of the process."""

Batch = tuple[int, ...]


def jobs_of(jobs: int | None, request: CheckRequest, declarations: Sequence[Declaration]) -> int:
    """The number of processes that test: by default one per core that it may use, fewer for few tests."""
    if jobs is not None:
        return jobs
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    session, tests = Session(request), 0
    for each in declarations if cores > 1 else ():
        with suppress(UsageError):  # its contract has no such case
            tests += session.count(each)
    return max(1, min(cores, MOST_JOBS, tests // TESTS_PER_JOB))


def session_of(
    request: CheckRequest,
    implementations: int,
    jobs: int,
    explains: bool = False,
    fail_fast: bool = False,
    looks: bool = False,
) -> Session:
    """The session of a check of so many implementations in so many processes. UsageError for less than one process."""
    check_jobs(jobs)
    several = implementations > 1
    if jobs == 1:
        return Session(request, several, explains, fail_fast, looks=looks)
    return DividedSession(request, several, explains, fail_fast, looks=looks, jobs=jobs)


@dataclass
class DividedSession(Session):
    """A session that asks in several processes at once. As a context manager it ends them.

    Outcomes are those of one process, in the same order: the parent finds the names of mistakes, gives up after answers
    that hang, and says what concerns the implementation as a whole.
    """

    jobs: int = 2
    processes: list[Process] = field(default_factory=list)
    asked_by: dict[tuple[str, Batch], int] = field(default_factory=dict)
    """The process that was given a batch of a contract's questions before, and may have kept them."""

    def __exit__(self, *_: object) -> None:
        for each in self.processes:
            each.process.terminate()  # all of them, before the first is waited for
        for each in self.processes:
            each.end()

    def run(self, implementation: Declaration | Loaded, earlier: Sequence[Outcome] = ()) -> Generator[Outcome]:
        """Check one implementation. Questions that have an outcome in `earlier` are not asked again."""
        if (
            isinstance(implementation, Loaded)
            or implementation.broken
            or implementation.contract not in contract_names()
        ):
            yield from super().run(implementation, earlier)
            return
        contract = contract_named(implementation.contract)
        with alone(self.request.device), ExitStack() as stack:
            division = Division(self, implementation, self.asked_of(implementation, contract))
            stack.callback(division.close)
            opened = division.open()
            if isinstance(opened, Outcome):
                yield opened
                return
            ask, apart = division.ask, partial(division.ask, apart=True)
            own = in_signature(contract, opened.fields["signature"])
            subject = Subject(contract=own, ask=ask, ask_apart=apart, **opened.fields)
            known = self.known(implementation, contract)
            division.check = Check(
                subject,
                self.questions(contract),
                division.asked,
                known,
                earlier,
                settles=not self.fail_fast,
                time_limit=self.request.time_limit,
                processes=self.jobs if self.forks else 1,
            )
            self.meet(subject)
            yield from self.explained(division.check, division.check.run(division), implementation)

    @property
    def forks(self) -> bool:
        """Whether this process is copied where others are needed."""
        return self.request.device == "cpu" and copies.possible()

    def process(self, place: int) -> Process:
        """The process at this place; a new one where there is none, or none any more."""
        if place < len(self.processes) and not self.processes[place].ended:
            return self.processes[place]
        forked = self.forks
        context: Any = multiprocessing.get_context("fork" if forked else "spawn")
        ours, theirs = context.Pipe()
        others = [each.connection for each in self.processes if not each.ended]
        session = Session(self.request, self.several, _asked=self._asked if forked else {})
        arguments = (theirs, [*others, ours] if forked else [], session, seeded())
        process = context.Process(target=serve, args=arguments, daemon=True)
        process.start()
        theirs.close()
        started = Process(process, ours)
        self.processes[place : place + 1] = [started]
        return started


@dataclass
class Division:
    """The questions of one implementation, divided between the processes of a session: the `Source` of its check."""

    session: DividedSession
    implementation: Declaration
    asked: Sequence[tuple[Case, str]]
    check: Check | None = None
    waiting: deque[Batch] = field(default_factory=deque)
    """Batches that no process has been given yet."""
    apart: deque[Batch] = field(default_factory=deque)
    """The same of questions that are asked in a worker."""
    found: dict[int, Outcome | Answer] = field(default_factory=dict)
    """By the place of the question, what has not been passed on yet."""
    feeding: bool = True
    """Whether processes are given batches as they need them."""

    def open(self) -> Opened | Outcome:
        """Have all processes get ready to ask, and say what the first one says."""
        for place in range(self.session.jobs):
            self._open(place)
        said = self._said_by(FIRST)
        if isinstance(said, UsageError):
            raise said
        if isinstance(said, Died):
            return unaskable(said, self.session.request.device, self.implementation)
        opened: Opened | Outcome = said
        return opened

    def outcomes(self, places: Sequence[int]) -> Generator[Outcome]:
        """The outcomes of these questions, in this order."""
        for worker, batches in groupby(self._batches(places), lambda batch: self.asked[batch[0]][0].in_worker):
            (self.apart if worker else self.waiting).extend(batches)
        for place in range(self.session.jobs):
            self._feed(place)
        for place in places:
            while place not in self.found:
                self._hear()
            yield self._outcome(place)

    def misdeclared(self) -> Iterable[Outcome]:
        """What the first process finds declared and not so."""
        said = self._demand(FindMisdeclared())
        died = isinstance(said, Died)
        return [unaskable(said, self.session.request.device, self.implementation)] if died else said

    def ask(self, calls: Sequence[Call], apart: bool = False) -> Answer:
        """What the implementation answers to calls that are no question of the check."""
        answer: Answer = self._demand(AskCalls(calls, apart))
        return answer

    def close(self) -> None:
        """End the processes that are still asking: of what they find, nobody will hear."""
        for each in self.session.processes:
            if each.given or each.demanded:
                each.end()

    def drop(self) -> None:
        """Ask nothing more of what is left: whoever still asks it is replaced, for there may be no answer."""
        self.waiting.clear()
        self.apart.clear()
        self.found.clear()
        for place, process in enumerate(self.session.processes):
            if process.given and not process.ended:
                process.given.clear()
                process.end()
                self._open(place)

    def _batches(self, places: Sequence[int]) -> Iterator[Batch]:
        """Questions in a row, those of one case together and those that are asked in a worker by themselves."""
        batch: Batch = ()
        for case, group in groupby(places, lambda place: self.asked[place][0]):
            if batch and (len(batch) >= BATCH or self.asked[batch[0]][0].in_worker != case.in_worker):
                yield batch
                batch = ()
            batch += tuple(group)
        if batch:
            yield batch

    def _outcome(self, place: int) -> Outcome:
        """What was found of a question; where that is an answer, its mistake gets a name."""
        found, check = self.found.pop(place), self.check
        assert check is not None
        if not isinstance(found, Outcome):
            return check.diagnosed(check.question(*self.asked[place]), found)
        if found.status == Status.PASSED:
            check.diagnostician.passed(*self.asked[place])
        return found

    def _open(self, place: int) -> None:
        process = self.session.process(place)
        process.opening, process.idle = process.opening + 1, None
        process.send(Open(self.implementation, foresee=place == FIRST))

    def _feed(self, place: int) -> None:
        """Give a process batches while there are any and it has too few: of the last ones, a share, so that all
        processes end together.
        """
        process = self.session.processes[place]
        share = len(self.waiting) // (2 * self.session.jobs)
        enough = max(AHEAD, min(MOST_AHEAD, share))
        while self.feeding and not process.idle and len(process.given) < enough and (batch := self._next(place)):
            process.given.append(batch)
            process.send(Ask(batch))

    def _next(self, place: int) -> Batch:
        """The next batch for a process: first those that it has been given for another implementation; empty for none.

        What is asked in a worker comes after half of the others, while which the worker has had the time to start.
        """
        if place == FIRST and self.apart and len(self.waiting) <= len(self.asked) // BATCH // 2:
            return self.apart.popleft()
        contract = self.implementation.contract
        asked_by = self.session.asked_by
        own = (batch for batch in self.waiting if asked_by.get((contract, batch), place) == place)
        batch: Batch = next(own, self.waiting[-1] if self.waiting else ())
        if batch:
            self.waiting.remove(batch)
            asked_by.setdefault((contract, batch), place)
        return batch

    def _demand(self, message: Any) -> Any:
        """What the first process says to a message. It is sent when nothing else is under way: both sides wait where
        both send much.
        """
        self.feeding = False
        while self.session.processes[FIRST].given:
            self._hear()
        process = self.session.processes[FIRST]
        if process.idle:
            return Died(str(process.idle))
        process.demanded = True
        process.send(message)
        said = self._said_by(FIRST)
        process.demanded, self.feeding = False, True
        for place in range(self.session.jobs):
            self._feed(place)
        return said

    def _said_by(self, place: int) -> Any:
        """What a process says next that is not found of a question; how it died if it does."""
        process = self.session.processes[place]
        while not process.said:
            self._hear()
        return process.said.popleft()

    def _hear(self) -> None:
        """Wait until a process says something, or ends, and act on that."""
        living = [each for each in self.session.processes if not each.ended]
        heard = wait([of for each in living for of in (each.connection, each.process.sentinel)])
        for place, process in enumerate(self.session.processes):
            if process.connection in heard or process.process.sentinel in heard:
                try:
                    message = process.receive()
                except EOFError:
                    self._lost(place, process)
                else:
                    self._take(place, process, message)

    def _take(self, place: int, process: Process, message: Any) -> None:
        if isinstance(message, Failed):
            raise RuntimeError(f"the suite's own code failed in a process that asks:\n{message.traceback}")
        if isinstance(message, Found):
            self.found[message.place] = message.outcome
            process.has_found(message.place)
            self._feed(place)
        elif process.opening:
            self._opened(place, process, message)
        else:
            process.said.append(message)

    def _opened(self, place: int, process: Process, message: Any) -> None:
        """A process has said whether it can ask. The first one speaks for all; another that cannot takes no part."""
        process.opening -= 1
        if process.opening:  # this was about the implementation before, which others had done with by then
            return
        if self.check is None and place == FIRST:
            process.said.append(message)
        elif not isinstance(message, Opened):
            self._set_aside(process, message)

    def _lost(self, place: int, process: Process) -> None:
        """A process has ended: the question that it was asking has died, and a new process asks the others."""
        died = Died(process.end(grace=LAST_WORDS_LIMIT))
        process.said.append(died)
        if process.opening:
            self._set_aside(process, died)
            return
        if process.given:
            culprit = process.given[0][0]
            process.has_found(culprit)
            self.found[culprit] = died
        self._take_back(process)
        self._open(place)
        self._feed(place)

    def _take_back(self, process: Process) -> None:
        for batch in reversed(process.given):
            (self.apart if self.asked[batch[0]][0].in_worker else self.waiting).appendleft(batch)
        process.given.clear()

    def _set_aside(self, process: Process, why: Died | Outcome) -> None:
        """Have others ask what a process would have asked; what nobody is left for has no answer."""
        process.idle = why
        self._take_back(process)
        everyone = self.session.processes
        lost = [*self.apart] if everyone[FIRST].idle else []
        lost += [*self.waiting] if all(each.idle for each in everyone) else []
        for place in (place for batch in lost for place in batch):
            self.found[place] = Died(str(why)) if isinstance(why, Outcome) else why
        for place in range(self.session.jobs):  # those that had no questions left would wait for ever
            self._feed(place)
