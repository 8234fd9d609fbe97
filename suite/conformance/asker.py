"""A process that asks some of the questions of a check, and sends each outcome to its parent as it comes: both ends."""

from __future__ import annotations

import gc
import pickle
import signal
import sys
import traceback
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from attnsuite.cases import Call
from attnsuite.cases.tensors import seed
from attnsuite.conformance.questions import Answer, Subject
from attnsuite.conformance.runner import Check
from attnsuite.conformance.session import Session, alone
from attnsuite.model import Outcome, Status, UsageError
from attnsuite.model.limits import KILL_LIMIT
from attnsuite.registry import Declaration
from attnsuite.worker import Died
from attnsuite.worker.sandbox.processes import ending


@dataclass(frozen=True)
class Open:
    """Get ready to ask this implementation. `foresee` prepares the process that some of its questions need."""

    implementation: Declaration
    foresee: bool


@dataclass(frozen=True)
class Ask:
    """Ask the questions at these places in what the session asks of the contract."""

    places: Sequence[int]


@dataclass(frozen=True)
class AskCalls:
    """Make these calls: whoever looks for the mistake behind an answer has questions of its own."""

    calls: Sequence[Call]
    apart: bool


@dataclass(frozen=True)
class FindMisdeclared:
    """Find what is declared and not so."""


@dataclass(frozen=True)
class Opened:
    """What a subject of another process declares, as the fields of `Subject`."""

    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Found:
    """The outcome of a question, or the answer that it is to be made of where the mistake may get a name."""

    place: int
    outcome: Outcome | Answer


@dataclass(frozen=True)
class Failed:
    """The suite's own code failed, as this traceback says."""

    traceback: str


def send(connection: Connection, message: Any) -> None:
    """Send a message. `Connection.send` would leave tensors in shared memory, for the other side to find."""
    connection.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))


def receive(connection: Connection) -> Any:
    """The next message. Raises EOFError where there will be none."""
    return pickle.loads(connection.recv_bytes())


@dataclass
class Process:
    """The parent's end of one process that asks."""

    process: BaseProcess
    connection: Connection
    given: deque[tuple[int, ...]] = field(default_factory=deque)
    """The batches of questions that it was given, without those questions that have an outcome."""
    said: deque[Any] = field(default_factory=deque)
    """What it said that is not `Found`, and nobody has heard yet."""
    opening: int = 0
    """How many times it has been told to get ready, and has not said whether it is."""
    demanded: bool = False
    """Whether it is about to answer a message that is not about questions."""
    idle: Died | Outcome | None = None
    """Why it takes no part in asking the implementation of the moment."""
    ended: bool = False

    def send(self, message: Any) -> None:
        """Send a message. Whether the process has ended is found when its answer is waited for."""
        with suppress(OSError):
            send(self.connection, message)

    def receive(self) -> Any:
        """The next message. Raises EOFError where the process has ended."""
        try:
            return receive(self.connection)
        except ConnectionResetError:
            raise EOFError from None

    def has_found(self, place: int) -> None:
        """Take a question from those that it still has to ask."""
        left = tuple(other for other in self.given.popleft() if other != place)
        if left:
            self.given.appendleft(left)

    def end(self, grace: float = 0.0) -> str:
        """End it and what it has started, and say how it ended: `SIGSEGV`, `exit status 3`."""
        self.ended = True
        self.process.join(grace)
        self.connection.close()
        self.process.terminate()
        self.process.join(KILL_LIMIT)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        return ending(self.process.exitcode or 0)


def serve(connection: Connection, parents: Sequence[Connection], session: Session, number: int) -> None:
    """Answer the parent until it closes the connection; numbers are drawn from the seed `number`.

    `parents` are the parent's ends, which a forked process has, too: open here, they would outlive the parent.
    """
    for each in parents:
        each.close()
    gc.freeze()  # what it inherits is never looked through for cycles, and so not copied
    signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is the parent's, who ends all. Processes started here get it
    signal.signal(signal.SIGTERM, leave)
    with seed(number), alone(session.request.device), ExitStack() as stack:
        asker = Asker(connection, session)
        stack.callback(asker.close)
        try:
            while True:
                asker.answer(receive(connection))
        except (EOFError, BrokenPipeError):
            pass  # the parent needs no more
        except Exception:
            send(connection, Failed(traceback.format_exc()))


def leave(*_: object) -> None:
    """End this process, and what it has started, at the first SIGTERM: the group's may come before the parent's."""
    signal.signal(signal.SIGTERM, lambda *_: None)  # another one would end the clearing up of the first
    sys.exit(0)


@dataclass
class Asker:
    """What one process knows of the implementation that it asks at the moment."""

    connection: Connection
    session: Session
    check: Check | None = None
    stack: ExitStack = field(default_factory=ExitStack)

    def answer(self, message: Any) -> None:
        """Do what a message demands."""
        if isinstance(message, Open):
            self._open(message)
        elif self.check is None:
            pass  # it was said why nothing can be asked
        elif isinstance(message, Ask):
            for place in message.places:
                send(self.connection, self._found(self.check, place))
        elif isinstance(message, AskCalls):
            subject = self.check.subject
            send(self.connection, (subject.ask_apart if message.apart else subject.ask)(message.calls))
        else:
            send(self.connection, list(self.check.misdeclared()))

    def close(self) -> None:
        """End the processes of the implementation."""
        self.stack.close()

    def _open(self, message: Open) -> None:
        self.close()
        self.check = None
        try:
            found = self.session.check(message.implementation, self.stack, foresee=message.foresee)
        except UsageError as error:
            send(self.connection, error)
            return
        if isinstance(found, Check):
            self.check = found
            send(self.connection, Opened(declared(found.subject)))
        else:
            send(self.connection, found)

    def _found(self, check: Check, place: int) -> Found:
        question = check.question(*check.asked[place])
        answer = check.answered(question)
        outcome = check.concluded(question, answer)
        return Found(place, answer if isinstance(answer, tuple) and outcome.status == Status.WRONG else outcome)


def declared(subject: Subject) -> dict[str, Any]:
    """The fields of a subject that say what it is, and not how it is asked."""
    names = (
        "name",
        "parameters",
        "lacks",
        "conventions",
        "device",
        "plugged",
        "imported",
        "style",
        "signature",
        "signed",
        "unasked",
        "walls",
        "shipped",
        "lenient",
    )
    return {name: getattr(subject, name) for name in names}
