"""One implementation in its own process: started when it is needed, asked, suspended, ended."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Any, ClassVar

from attnsuite.cases import Call, Reply
from attnsuite.model import Status, UsageError
from attnsuite.model.limits import COMPILE_LIMIT, EXIT_LIMIT, IMPORT_LIMIT, TIME_LIMIT
from attnsuite.registry import Broken, Declaration, Missing, find, missing_library
from attnsuite.worker import messages
from attnsuite.worker.compiling import may_compile, shape_of
from attnsuite.worker.forkserver import prewarm
from attnsuite.worker.inputs import Fingerprints, compared, fingerprints, sent_with
from attnsuite.worker.process import LimitExceeded, Process
from attnsuite.worker.turns import EXCHANGE, Turn, TurnResult

EXCHANGE_LIMITS = 2
"""Time limits that all turns of an exchange may take together: of calls that take long there is one, and no call."""


@dataclass(frozen=True)
class Ready:
    """The implementation is imported. Its declaration now says what only an import could tell."""

    declaration: Declaration


@dataclass(frozen=True)
class Crash:
    """The process ended, or invalid reply. `printed` is the last that it wrote."""

    how: str
    """`SIGSEGV`, `exit status 3`, `invalid reply: …`."""
    printed: str = ""
    status: ClassVar[Status] = Status.CRASHED

    def __str__(self) -> str:
        last = self.printed.rpartition("\n")[2][-200:]
        return f"crashed: {self.how}" + (f"; the last it printed: {last}" if last else "")


@dataclass(frozen=True)
class Timeout:
    """No result of a call, or no end of the import, within its time limit."""

    seconds: float
    printed: str = ""
    importing: bool = False
    compiling: bool = False
    """Whether a compiler may have been at work, for which the limit was longer."""
    status: ClassVar[Status] = Status.TIMEOUT

    def __str__(self) -> str:
        what = "its import did not end" if self.importing else "no result"
        within = f"{self.seconds:g} s" + " (compiling)" * self.compiling
        return f"timeout: {what} within {within}; --time-limit {2 * self.seconds:g} allows more"


Failure = Missing | Broken | Crash | Timeout


@dataclass
class Limit:
    """How long a reply is awaited: until a time of `time.monotonic`, which is that of a limit in seconds.

    Where a compiler may be at work then, the longer limit takes its place.
    """

    seconds: float
    longer: float
    compiling: bool = False

    def __post_init__(self) -> None:
        self.until = time.monotonic() + self.seconds

    def receive(self, process: Process, kind: Any) -> Any:
        """The next reply. Where a compiler may keep it, the limit is extended."""
        if self.longer > self.seconds and process.is_silent(self.until) and may_compile(process.pid):
            self.until += self.longer - self.seconds
            self.seconds, self.compiling = self.longer, True
        return process.receive(kind, self.until)


class Worker:
    """One implementation in a process of its own, which starts when it is first needed and again after a death.

    `target` is a declaration or names exactly one. `time_limit` is in seconds and covers a whole request, crossing
    included; `start_limit` covers import. While a compiler may be at work in the process, the import and the first call
    of each shape have `compile_limit`, where that is longer. `environment` is added to this process's own. An
    implementation that could not be started is not tried again. Use it as a context manager, from one thread at a time.
    The process is bound to these `cores`, where the system allows. `service`, `module:function`, names what answers the
    verbs other than `run_calls`; see `attnsuite.worker.__main__`. The process is an interpreter of its own on a GPU,
    whose drivers need not survive a fork; else it may be forked from one that has imported PyTorch.

    One that is `sandboxed` is in a sandbox, as far as this machine has one, with a folder for itself to work in;
    `memory_limit` is in bytes, 0 is none. The system enforces it for each process; that of all together is looked at,
    unless it is not `memory_watched`: looking takes time from what is timed. Once it is `cancelled`, which another
    thread may say, no reply is waited for: the process has crashed.
    """

    def __init__(
        self,
        target: Declaration | str,
        device: str = "cpu",
        time_limit: float = TIME_LIMIT,
        start_limit: float = IMPORT_LIMIT,
        *,
        compile_limit: float = COMPILE_LIMIT,
        environment: Mapping[str, str] | None = None,
        cores: Collection[int] = (),
        service: str = "",
        sandboxed: bool = False,
        memory_limit: int = 0,
        memory_watched: bool = True,
        cancelled: Event | None = None,
    ) -> None:
        self.declaration = _single(target) if isinstance(target, str) else target
        self.device = device
        self.time_limit = time_limit
        self.start_limit = start_limit
        self.compile_limit = compile_limit
        self._environment = dict(environment or {})
        self._cores, self._service = frozenset(cores), service
        self._sandboxed, self._memory_limit, self._memory_watched, self._cancelled = (
            sandboxed,
            memory_limit,
            memory_watched,
            cancelled,
        )
        self.mechanisms: tuple[str, ...] = ()
        """The names of the mechanisms that sandbox the process, once it has started."""
        self._process: Process | None = None
        self._state: Ready | Failure | None = None
        self._starting = Limit(start_limit, compile_limit)
        self._requests = 0
        self._shapes: set[int] = set()
        """Hashes of the shapes that the process has been called with."""

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The process's number, or None while there is none."""
        return self._process.pid if self._process else None

    def prestart(self) -> None:
        """Begin, in the background, what takes longest of a start, for a process that is needed later or never.

        On a CPU that is the import of PyTorch by the process which workers are forked from: `start` would wait for it.
        """
        if self.device == "cpu":
            prewarm(self._environment, self._cores)
        else:
            self.start()

    def start(self) -> None:
        """Start the process and the import in the background; without effect where that has happened."""
        if self._process is not None or self._state is not None:
            return
        if self.declaration.broken:
            self._state = Broken(self.declaration, self.declaration.broken)
        else:
            self._state = missing_library(self.declaration)
        if self._state is not None:
            return
        process = self._process = Process(
            self._environment,
            self._cores,
            service=self._service,
            fresh=self.device != "cpu",
            sandboxed=self._sandboxed,
            memory=self._memory_limit,
            memory_watched=self._memory_watched,
            cancelled=self._cancelled,
        )
        self.mechanisms = process.mechanisms
        self._starting = Limit(self.start_limit, self.compile_limit)
        self._requests = 0
        self._shapes.clear()
        declaration = _placed(self.declaration)
        if declaration.backend:
            declaration = replace(declaration, backend=_placed(declaration.backend))
        path = [str(Path(entry or ".").resolve()) for entry in [*sys.path, ""]]
        setup = messages.Setup(declaration, self.device, path, self._service)
        failed = self._attempt(lambda process: process.send(setup, self._starting.until), self._starting)
        if isinstance(failed, Crash | Timeout):
            self._state = failed

    def ready(self) -> Ready | Failure:
        """Wait until the implementation is imported, or say why it cannot be. Raises `UsageError` as `load` does."""
        self.start()
        if self._state is None:
            report = self._attempt(
                lambda process: self._starting.receive(process, messages.ImportReport), self._starting
            )
            if isinstance(report, Timeout):
                report = replace(report, importing=True)
            self._state = self._started(report) if isinstance(report, messages.ImportReport) else report
        return self._state

    def run_calls(
        self,
        calls: Sequence[Call],
        meanwhile: Callable[[], object] = lambda: None,
        time_limit: float | None = None,
    ) -> tuple[Reply, ...] | Failure:
        """The replies to the calls, made in order in the process, or why there are none.

        `meanwhile` is done here while the process works, unless that is lost already.
        """
        sent: list[Fingerprints] = []

        def while_it_works() -> None:
            sent.extend(fingerprints(sent_with(calls)))
            meanwhile()

        began = time.monotonic()
        answer = self.request("run_calls", {"calls": calls}, time_limit, while_it_works)
        if isinstance(answer, Failure):
            return answer
        at_most = time.monotonic() - began  # by this clock, whatever the process says
        try:
            replies = [
                replace(reply, seconds=min(reply.seconds, at_most)) for reply in messages.replies_from(answer, calls)
            ]
            return compared(calls, replies, sent)
        except messages.InvalidMessage as garbage:
            return self._garbage(garbage)

    def request(
        self,
        verb: str,
        arguments: Mapping[str, Any],
        time_limit: float | None = None,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> Any | Failure:
        """What a verb answers in the process: data and tensors, as they came.

        Verbs are `run_calls` and those of the service. `meanwhile` is done here while the process works, and what it
        takes is added to the time limit: the answer is not looked at before.
        """
        return self._request(verb, arguments, time_limit, lambda process: meanwhile(), replies=1)

    def exchange(
        self, arguments: Mapping[str, Any], turns: Sequence[Turn], wanted: int, largest: int
    ) -> tuple[list[TurnResult], Any] | Failure:
        """What the process answers in each of these turns, and then to the whole request.

        Of a turn it is the seconds, and of the one with the number `wanted` the bytes. None may be more than `largest`.
        All of them together may take `EXCHANGE_LIMITS` time limits. Where the process fails in one, later ones are not
        taken.
        """
        taken: list[TurnResult] = []
        until = time.monotonic() + EXCHANGE_LIMITS * self.time_limit

        def deadline() -> float:
            return min(until, time.monotonic() + self.time_limit)

        def take_turns(process: Process) -> None:
            for number, (turn, inputs) in enumerate(turns):
                if (answer := process.take_turn(turn, inputs, deadline(), largest)) is None:
                    break
                taken.append(answer if number == wanted else (answer[0], bytearray()))
            else:
                process.end_turns(deadline())
            process.allow(1, deadline())

        answer = self._request(EXCHANGE, arguments, None, take_turns, replies=0)
        return answer if isinstance(answer, Failure) else (taken, answer)

    def _request(
        self,
        verb: str,
        arguments: Mapping[str, Any],
        time_limit: float | None,
        meanwhile: Callable[[Process], object],
        replies: int,
    ) -> Any | Failure:
        state = self.ready()
        if not isinstance(state, Ready):
            return state
        seconds = self.time_limit if time_limit is None else time_limit
        shape = hash(shape_of((verb, arguments)))
        limit = Limit(seconds, 0.0 if shape in self._shapes or verb == EXCHANGE else self.compile_limit)
        self._requests += 1

        def talk(process: Process) -> messages.Response:
            process.forget()
            process.send(messages.Request(self._requests, verb, dict(arguments)), limit.until, replies)
            sent = time.monotonic()
            meanwhile(process)
            limit.until += time.monotonic() - sent
            response: messages.Response = limit.receive(process, messages.Response)
            if response.id != self._requests:
                raise messages.InvalidMessage("no answer to this request")
            if response.lost and self.device == "cpu":
                raise messages.InvalidMessage("a device is lost that it does not have")
            return response

        response = self._attempt(talk, limit)
        if not isinstance(response, messages.Response):
            return response
        self._shapes.add(shape)
        if response.lost:  # it can do nothing more on its device: the next request starts another process
            printed = self._running.printed
            self.close()
            if response.failed:
                return Crash(f"lost its CUDA context: {response.lost[: messages.MAX_TEXT]}", printed)
        elif response.failed:
            self.close()
            return Crash("the suite's own code failed in the worker", messages.shortened(response.failed).strip())
        return response.answer

    def suspend(self) -> None:
        """Stop the process where it stands, so that it takes no time from others."""
        if self._process is not None:
            self._process.suspend()

    def resume(self) -> None:
        """Let a suspended process go on."""
        if self._process is not None:
            self._process.resume()

    def move(self, cores: Collection[int]) -> None:
        """Bind the process, and all that it has started, to these cores; the next one starts on its own again."""
        if self._process is not None:
            self._process.move(cores)

    def _attempt(self, talk: Callable[[Process], Any], limit: Limit) -> Any | Crash | Timeout:
        """What talking to the process comes to; or why it fails: the next request then starts a fresh process."""
        process = self._running
        try:
            return talk(process)
        except EOFError:
            how = process.end(EXIT_LIMIT)
            failure: Crash | Timeout = Crash(how, process.printed)
        except TimeoutError:
            process.end()
            failure = Timeout(limit.seconds, process.printed, compiling=limit.compiling)
        except LimitExceeded as error:
            process.end()
            failure = Crash(str(error), process.printed)
        except messages.InvalidMessage as garbage:
            return self._garbage(garbage)
        except BaseException:  # Ctrl-C: what comes later would answer another request
            self.close()
            raise
        self.close()
        return failure

    def _started(self, report: messages.ImportReport) -> Ready | Failure:
        try:
            declaration, reason = messages.declared_by(report, self.declaration), messages.shortened(report.reason)
        except messages.InvalidMessage as garbage:
            return self._garbage(garbage)
        if report.status is messages.ImportStatus.READY:
            self.declaration = declaration
            return Ready(declaration)
        printed = self._running.printed
        self.close()
        if report.status is messages.ImportStatus.UNUSABLE:
            raise UsageError(reason)
        if report.status is messages.ImportStatus.MISSING:
            return Missing(declaration, reason)
        return Broken(declaration, reason, printed)

    def _garbage(self, what: object) -> Crash:
        process = self._running
        self.close()
        return Crash(f"invalid reply: {what}", process.printed)

    @property
    def _running(self) -> Process:
        """The process, where it has been started and has not ended."""
        if self._process is None:
            raise RuntimeError("the worker has no process")
        return self._process

    def close(self) -> None:
        """Kill the process and all that it has started. The next request starts another one."""
        if self._process is not None:
            self._process.end()
        self._process = None
        if isinstance(self._state, Ready):
            self._state = None


def _placed(declaration: Declaration) -> Declaration:
    """The declaration for a process in another folder."""
    return replace(declaration, file=str(Path(declaration.file).resolve()) if declaration.file else "")


def _single(target: str) -> Declaration:
    declarations = find([target])
    if len(declarations) != 1:
        raise UsageError(f"a worker runs one implementation, but {target!r} names {len(declarations)}")
    return declarations[0]
