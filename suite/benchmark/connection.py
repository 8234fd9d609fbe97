"""A bench in another process, which is suspended while it has no verb to answer, or in this process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psutil  # type: ignore[import-untyped, unused-ignore]  # stubs are a package of their own
import torch

from attnsuite.benchmark.measure.bench import Bench
from attnsuite.benchmark.measure.failures import says_out_of_memory
from attnsuite.benchmark.measure.messages import AnyAnswer, Done, Exchanged, Layout, NoResult, read
from attnsuite.model import Status
from attnsuite.worker import Crash, Failure, Ready, Worker
from attnsuite.worker.messages import STORAGE_LIMIT
from attnsuite.worker.process import REPLY_SHARE
from attnsuite.worker.turns import Taken, Turn

Turns = tuple[list[Taken], Exchanged] | NoResult
"""Each turn's seconds and bytes, and how the tensors lie in these."""


class Here:
    """A bench in this process, which meanwhile has as many threads as another would have."""

    def __init__(self, function: Callable[..., Any], device: str, threads: int) -> None:
        self._bench, self._threads = Bench(function, device, threads=threads), threads

    def ask(self, kind: type[AnyAnswer], verb: str, stay: bool = False, **arguments: Any) -> AnyAnswer | NoResult:
        """The answer to a verb, or why there is none."""
        with self._its_threads():
            return read(kind, self._bench(verb, arguments))

    def exchange(self, inputs: Layout, warm: int, turns: Sequence[Turn], kept: int) -> Turns:
        """The answers in these turns."""
        with self._its_threads():
            return self._bench.exchange_here(inputs, warm, turns)

    @contextmanager
    def _its_threads(self) -> Iterator[None]:
        before = torch.get_num_threads()
        torch.set_num_threads(self._threads or before)
        try:
            yield
        finally:
            torch.set_num_threads(before)


class Elsewhere:
    """A bench in a process of its own. Each process that the worker starts is configured before anything else.

    Imports are spread over the cores; when its process is ready it moves to `cores`, where any are given.
    """

    def __init__(self, worker: Worker, threads: int, memory_limit: int, cores: Collection[int] = ()) -> None:
        self.worker = worker
        self._configuration = {"threads": threads, "memory_limit": memory_limit}
        self._cores = cores
        self._most = memory_limit // REPLY_SHARE or STORAGE_LIMIT
        """The most bytes of an answer in a turn."""
        self._rests = torch.device(worker.device).type == "cuda"
        """Whether memory is given back before the process is suspended: a GPU's is shared by all participants."""
        self._configured: int | None = None
        """The number of the process that was configured last."""
        self._awake = False
        """Whether the last verb left it awake."""

    def ask(self, kind: type[AnyAnswer], verb: str, stay: bool = False, **arguments: Any) -> AnyAnswer | NoResult:
        """The answer to a verb, or why there is none. With `stay` the process stays awake for the next verb.

        On a GPU it first gives back the memory that its library keeps for later: others will need it.
        """
        failed = self._wake()
        try:
            return failed or self._request(kind, verb, arguments)
        finally:
            self._awake = stay
            if not stay:
                self._pause()

    def exchange(self, inputs: Layout, warm: int, turns: Sequence[Turn], kept: int) -> Turns:
        """The answers in these turns, the bytes alone of the one with the number `kept`."""
        failed = self._wake()
        try:
            if failed:
                return failed
            answers = self.worker.exchange({"inputs": inputs, "warm": warm}, turns, kept, self._most)
            if isinstance(answers, Failure):
                return lost(answers)
            layout = read(Exchanged, answers[1])
            return layout if isinstance(layout, NoResult) else (answers[0], layout)
        finally:
            self._pause()

    def _wake(self) -> NoResult | None:
        """Let its process go on, and configure it if it is new; why that is not possible."""
        if not self._awake:  # to find all that a sandboxed one has started takes a while, and a clock is running
            self.worker.resume()
        state = self.worker.ready()
        if not isinstance(state, Ready):
            return lost(state)
        if self._configured == self.worker.pid:
            return None
        self._configured = self.worker.pid
        self.worker.move(self._cores)
        configured = self._request(Done, "configure", self._configuration)
        return configured if isinstance(configured, NoResult) else None

    def _pause(self) -> None:
        self._awake = False
        if self._rests and self.worker.pid == self._configured:
            self._request(Done, "rest", {})
        self.worker.suspend()

    def used(self) -> float:
        """Seconds of CPU time that its process and those below it have used."""
        with suppress(psutil.Error):
            if self.worker.pid is not None:
                process = psutil.Process(self.worker.pid)
                times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
                return sum(each.user + each.system + each.children_user + each.children_system for each in times)
        return 0.0

    def _request(self, kind: type[AnyAnswer], verb: str, arguments: dict[str, Any]) -> AnyAnswer | NoResult:
        answer = self.worker.request(verb, arguments)
        return lost(answer) if isinstance(answer, Failure) else read(kind, answer)


def lost(failure: Failure) -> NoResult:
    """Why a worker gave no answer."""
    if not isinstance(failure, Crash):
        return NoResult(failure.status, str(failure))
    killed = "; the system may have been out of memory" if failure.how == "SIGKILL" else ""
    status = Status.OUT_OF_MEMORY if says_out_of_memory(failure.printed) else failure.status
    return NoResult(status, f"{failure}{killed}")
