"""One implementation in its own process, which is started on first use, called, suspended and ended."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, ClassVar

from attnsuite.cases import Call, Reply
from attnsuite.model import Status, UsageError
from attnsuite.model.limits import COMPILE_LIMIT, EXIT_LIMIT, IMPORT_LIMIT, TIME_LIMIT
from attnsuite.registry import Broken, Declaration, Missing, find, missing_library
from attnsuite.worker import messages
from attnsuite.worker.compiling import may_compile
from attnsuite.worker.forkserver import prewarm
from attnsuite.worker.process import LimitExceeded, Process
from attnsuite.worker.snapshots import Fingerprints, compared, fingerprints, sent_with
from attnsuite.worker.turns import EXCHANGE, Turn, TurnResult

EXCHANGE_LIMITS = 2
"""Time limits that all turns of an exchange may take together: an exchange has at most one long call."""


@dataclass(frozen=True)
class Ready:
    """The implementation is imported. Its declaration now includes what only an import can determine."""

    declaration: Declaration


@dataclass(frozen=True)
class Crash:
    """The process ended, or sent an invalid reply. `printed` is the end of its output."""

    how: str
    """`SIGSEGV`, `exit status 3`, `invalid reply: …`."""
    printed: str = ""
    status: ClassVar[Status] = Status.CRASHED

    def __str__(self) -> str:
        last = self.printed.rpartition("\n")[2][-200:]
        return f"crashed: {self.how}" + (f"; the last it printed: {last}" if last else "")


@dataclass(frozen=True)
class Timeout:
    """A call or an import that exceeded its time limit."""

    seconds: float
    printed: str = ""
    importing: bool = False
    compiling: bool = False
    """Whether a compiler may have been running, which extends the limit."""
    status: ClassVar[Status] = Status.TIMEOUT

    def __str__(self) -> str:
        what = "its import did not end" if self.importing else "no result"
        within = f"{self.seconds:g} s" + " (compiling)" * self.compiling
        return f"timeout: {what} within {within}; --time-limit {2 * self.seconds:g} allows more"


Failure = Missing | Broken | Crash | Timeout


@dataclass
class Limit:
    """The deadline of a reply, as a time of `time.monotonic`, from a limit in seconds.

    The longer limit applies if a compiler may be running at the deadline.
    """

    seconds: float
    longer: float
    compiling: bool = False

    def __post_init__(self) -> None:
        self.until = time.monotonic() + self.seconds

    def receive(self, process: Process, kind: Any) -> Any:
        """The next reply. The limit is extended if a compiler may delay it."""
        if self.longer > self.seconds and process.is_silent(self.until) and may_compile(process.pid):
            self.until += self.longer - self.seconds
            self.seconds, self.compiling = self.longer, True
        return process.receive(kind, self.until)


class Worker:
    """One implementation in a process of its own, which starts on first use and again after it ended.

    `target` is a declaration or the name of one. `time_limit` is in seconds and covers a whole request with its
    transfers; `start_limit` covers the import. While a compiler may be running, both are at least `compile_limit`.
    `environment` is added to this process's own. An implementation that failed to start is not started again. Use a
    worker as a context manager, from one thread at a time. The process is bound to these `cores` if the system allows
    it. `service`, `module:function`, carries out verbs other than `run_calls`; see `attnsuite.worker.serving`. On a
    GPU, whose drivers may not survive a fork, the process is an interpreter of its own; else it may be forked from one
    that has imported PyTorch.

    A `sandboxed` process runs in the machine's sandbox, with a working folder of its own. `memory_limit` is in bytes; 0
    means no limit. The system enforces it for each process. The worker checks the sum over all processes, unless
    `memory_watched` is false, because a check disturbs timing. Once another thread has set `cancelled`, no reply is
    awaited, and the process counts as crashed.
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
        self._environment, self._cores, self._service = dict(environment or {}), frozenset(cores), service
        limits = {"memory": memory_limit, "memory_watched": memory_watched, "cancelled": cancelled}
        settings = {"service": service, "fresh": device != "cpu", "sandboxed": sandboxed, **limits}
        self._open = partial(Process, self._environment, self._cores, **settings)  # type: ignore[arg-type]
        self.mechanisms: tuple[str, ...] = ()
        """The names of the mechanisms that sandbox the process, once it has started."""
        self._process: Process | None = None
        self._state: Ready | Failure | None = None
        self._starting = Limit(start_limit, compile_limit)
        self._requests = 0

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The PID, or None without a process."""
        return self._process.pid if self._process else None

    def prestart(self) -> None:
        """Begin, in the background, the slowest part of a start, for a process that may be needed later.

        On a CPU that is the import of PyTorch by the fork server, for which `start` would wait.
        """
        if self.device == "cpu":
            prewarm(self._environment, self._cores)
        else:
            self.start()

    def start(self) -> None:
        """Start the process and the import in the background, unless that has happened."""
        if self._process is not None or self._state is not None:
            return
        if self.declaration.broken:
            self._state = Broken(self.declaration, self.declaration.broken)
        else:
            self._state = missing_library(self.declaration)
        if self._state is not None:
            return
        self._process = self._open()
        self.mechanisms = self._process.mechanisms
        self._starting = Limit(self.start_limit, self.compile_limit)
        self._requests = 0
        declaration = _placed(self.declaration)
        if declaration.backend:
            declaration = replace(declaration, backend=_placed(declaration.backend))
        path = [str(Path(entry or ".").resolve()) for entry in [*sys.path, ""]]
        setup = messages.Setup(declaration, self.device, path, self._service)
        failed = self._attempt(lambda process: process.send(setup, self._starting.until), self._starting)
        if isinstance(failed, Crash | Timeout):
            self._state = failed

    def ready(self) -> Ready | Failure:
        """Wait until the implementation is imported; `Ready`, or why it failed. Raises `UsageError` as `load` does."""
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
        self, calls: Sequence[Call], meanwhile: Callable[[], object] = lambda: None, time_limit: float | None = None
    ) -> tuple[Reply, ...] | Failure:
        """The replies to the calls, made in order in the process, or why they failed.

        `meanwhile` runs here while the process works, unless the process has failed.
        """
        sent: list[Fingerprints] = []

        def while_it_works() -> None:
            sent.extend(fingerprints(sent_with(calls)))
            meanwhile()

        began = time.monotonic()
        result = self.request("run_calls", {"calls": calls}, time_limit, while_it_works)
        if isinstance(result, Failure):
            return result
        elapsed = time.monotonic() - began  # by this process's clock, which bounds the reported times
        try:
            replies = [
                replace(reply, seconds=min(reply.seconds, elapsed)) for reply in messages.replies_from(result, calls)
            ]
            return compared(calls, replies, sent)
        except messages.InvalidMessage as error:
            return self._invalid_reply(error)

    def request(
        self,
        verb: str,
        arguments: Mapping[str, Any],
        time_limit: float | None = None,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> Any | Failure:
        """The result of a verb in the process: data and tensors, unvalidated.

        Verbs are `run_calls` and those of the service. `meanwhile` runs here while the process works; its time is added
        to the time limit, because the reply is read afterwards.
        """
        return self._request(verb, arguments, time_limit, lambda process: meanwhile(), replies=1)

    def exchange(
        self, arguments: Mapping[str, Any], turns: Sequence[Turn], wanted: int, largest: int
    ) -> tuple[list[TurnResult], Any] | Failure:
        """The results of these turns in the process, and then that of the whole request.

        The result of a turn is its seconds, and the bytes of turn number `wanted`. No reply may have more than
        `largest` bytes. All turns together may take `EXCHANGE_LIMITS` time limits. A failed turn ends the exchange.
        """
        results: list[TurnResult] = []
        until = time.monotonic() + EXCHANGE_LIMITS * self.time_limit

        def deadline() -> float:
            return min(until, time.monotonic() + self.time_limit)

        def take_turns(process: Process) -> None:
            for number, (turn, inputs) in enumerate(turns):
                if (result := process.take_turn(turn, inputs, deadline(), largest)) is None:
                    break
                results.append(result if number == wanted else (result[0], bytearray()))
            else:
                process.end_turns(deadline())
            process.allow(1, deadline())

        reply = self._request(EXCHANGE, arguments, None, take_turns, replies=0)
        return reply if isinstance(reply, Failure) else (results, reply)

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
        limit = Limit(seconds, 0.0 if verb == EXCHANGE else self.compile_limit)
        self._requests += 1

        def talk(process: Process) -> messages.Response:
            process.forget()
            process.send(messages.Request(self._requests, verb, dict(arguments)), limit.until, replies)
            sent = time.monotonic()
            meanwhile(process)
            limit.until += time.monotonic() - sent
            response: messages.Response = limit.receive(process, messages.Response)
            if response.id != self._requests:
                raise messages.InvalidMessage("the reply belongs to another request")
            if response.lost and self.device == "cpu":
                raise messages.InvalidMessage("it reports a lost device on a CPU")
            return response

        response = self._attempt(talk, limit)
        if not isinstance(response, messages.Response):
            return response
        if response.lost:  # its device is unusable: the next request starts another process
            printed = self._running.printed
            self.close()
            if response.failed:
                return Crash(f"lost its CUDA context: {response.lost[: messages.MAX_TEXT]}", printed)
        elif response.failed:
            self.close()
            return Crash("the suite's own code failed in the worker", messages.shortened(response.failed).strip())
        return response.result

    def suspend(self) -> None:
        """Stop the process, so that it takes no processor time from others."""
        if self._process is not None:
            self._process.suspend()

    def resume(self) -> None:
        """Resume a suspended process."""
        if self._process is not None:
            self._process.resume()

    def move(self, cores: Collection[int]) -> None:
        """Bind the process, and all that it has started, to these cores; the next process starts on its own cores."""
        if self._process is not None:
            self._process.move(cores)

    def _attempt(self, talk: Callable[[Process], Any], limit: Limit) -> Any | Crash | Timeout:
        """The result of a conversation with the process, or its failure, after which the next request starts a new
        process.
        """
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
        except messages.InvalidMessage as error:
            return self._invalid_reply(error)
        except BaseException:  # Ctrl-C: a later reply would belong to another request
            self.close()
            raise
        self.close()
        return failure

    def _started(self, report: messages.ImportReport) -> Ready | Failure:
        try:
            declaration, reason = messages.declared_by(report, self.declaration), messages.shortened(report.reason)
        except messages.InvalidMessage as error:
            return self._invalid_reply(error)
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

    def _invalid_reply(self, what: object) -> Crash:
        process = self._running
        self.close()
        return Crash(f"invalid reply: {what}", process.printed)

    @property
    def _running(self) -> Process:
        """The running process. RuntimeError without one."""
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
    """The declaration with an absolute path, for a process in another folder."""
    return replace(declaration, file=str(Path(declaration.file).resolve()) if declaration.file else "")


def _single(target: str) -> Declaration:
    declarations = find([target])
    if len(declarations) != 1:
        raise UsageError(f"a worker runs one implementation, but {target!r} names {len(declarations)}")
    return declarations[0]
