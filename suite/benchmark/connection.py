"""A bench in another process, which is suspended between verbs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch

from attnsuite.benchmark.measure.failures import is_out_of_memory
from attnsuite.benchmark.measure.messages import Acknowledgement, AnyReply, Layout, NoResult, ReplyLayout, decode
from attnsuite.benchmark.processes import cpu_seconds
from attnsuite.model import Status
from attnsuite.worker.messages import STORAGE_LIMIT
from attnsuite.worker.process import REPLY_SHARE
from attnsuite.worker.turns import Turn, TurnResult
from attnsuite.worker.worker import Crash, Failure, Ready, Worker

Turns = tuple[list[TurnResult], ReplyLayout] | NoResult
"""The seconds and bytes of each turn, and the layout of the tensors in these bytes."""


class RemoteBench:
    """A bench in a process of its own. Each process that the worker starts is configured before anything else.

    Imports are spread over the cores; a process that is ready moves to `cores`, if any.
    """

    def __init__(self, worker: Worker, threads: int, memory_limit: int, cores: Collection[int] = ()) -> None:
        self.worker = worker
        self._configuration = {"threads": threads, "memory_limit": memory_limit}
        self._cores = cores
        self._largest_reply = memory_limit // REPLY_SHARE or STORAGE_LIMIT
        """Bytes of a reply in a turn."""
        self._releases_memory = torch.device(worker.device).type == "cuda"
        """Whether cached memory is released before the process is suspended: all participants share a GPU's memory."""
        self._configured: int | None = None
        """The PID of the process that was configured last."""
        self._awake = False
        """Whether the last verb left it awake."""

    def request(self, kind: type[AnyReply], verb: str, stay: bool = False, **arguments: Any) -> AnyReply | NoResult:
        """The reply to a verb, or why there is no reply. With `stay` the process stays awake for the next verb."""
        failed = self._wake()
        try:
            return failed or self._send(kind, verb, arguments)
        finally:
            self._awake = stay
            if not stay:
                self._pause()

    def exchange(self, inputs: Layout, warm: int, turns: Sequence[Turn], kept: int) -> Turns:
        """The replies in these turns; bytes only of turn number `kept`."""
        failed = self._wake()
        try:
            if failed:
                return failed
            replies = self.worker.exchange({"inputs": inputs, "warm": warm}, turns, kept, self._largest_reply)
            if isinstance(replies, Failure):
                return no_result(replies)
            layout = decode(ReplyLayout, replies[1])
            return layout if isinstance(layout, NoResult) else (replies[0], layout)
        finally:
            self._pause()

    def _wake(self) -> NoResult | None:
        """Resume the process, and configure a new one; why that failed, or None."""
        if not self._awake:  # finding the descendants of a sandboxed process takes time, and a clock is running
            self.worker.resume()
        state = self.worker.ready()
        if not isinstance(state, Ready):
            return no_result(state)
        if self._configured == self.worker.pid:
            return None
        self._configured = self.worker.pid
        self.worker.move(self._cores)
        configured = self._send(Acknowledgement, "configure", self._configuration)
        return configured if isinstance(configured, NoResult) else None

    def _pause(self) -> None:
        self._awake = False
        if self._releases_memory and self.worker.pid == self._configured:
            self._send(Acknowledgement, "rest", {})
        self.worker.suspend()

    def used(self) -> float:
        """Processor time in seconds of its process and their descendants."""
        return cpu_seconds(self.worker.pid) if self.worker.pid is not None else 0.0

    def _send(self, kind: type[AnyReply], verb: str, arguments: dict[str, Any]) -> AnyReply | NoResult:
        reply = self.worker.request(verb, arguments)
        return no_result(reply) if isinstance(reply, Failure) else decode(kind, reply)


def no_result(failure: Failure) -> NoResult:
    """The failure of a worker, as that of a measurement."""
    if not isinstance(failure, Crash):
        return NoResult(failure.status, str(failure))
    killed = "; the system may have been out of memory" if failure.how == "SIGKILL" else ""
    status = Status.OUT_OF_MEMORY if is_out_of_memory(failure.printed) else failure.status
    return NoResult(status, f"{failure}{killed}")
