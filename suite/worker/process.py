"""The parent's end of a worker: its process, a private channel to it, and the end of its output."""

import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec

from attnsuite.model.limits import KILL_LIMIT
from attnsuite.worker.forkserver import MARK, ForkedProcess, bound, environment_of, server_of
from attnsuite.worker.messages import STORAGE_LIMIT, TOKEN, InvalidMessage, MessageTooLarge, pack, unpack
from attnsuite.worker.sandbox import Space, chosen, detected, sweep, take_down
from attnsuite.worker.sandbox.mechanism import make_space
from attnsuite.worker.sandbox.memory import taken
from attnsuite.worker.sandbox.processes import children, descendants, ending, signal_all
from attnsuite.worker.turns import END, FAILED, HEAD, READY, REPLIED, TurnResult, beyond

PRINTED_KEPT, PRINTED_LIMIT = 8_000, 1 << 26
"""Bytes: the end of the process's output that is stored, and the output that is allowed during a request."""
UNEXPECTED_REPLY = "a reply out of turn: something other than the worker wrote to its channel"
MEMORY_CHECK_INTERVAL = 0.25
"""Seconds between two checks of the memory of a process during a request."""
REPLY_SHARE = 4
"""A reply may take one such part of its process's memory limit: the suite needs memory for it and for expected
values."""
PIECE, PARTS = 1 << 20, 64
"""Bytes per read, and parts of a message per write; systems allow a thousand."""


class LimitExceeded(Exception):
    """The process exceeded a limit; the message names it."""


class SpawnedProcess:
    """The parent's view of a worker that is an interpreter of its own; compare `ForkedProcess`."""

    def __init__(self, command: Sequence[str], descriptors: Sequence[int], environment: Mapping[str, str]) -> None:
        channel, output, life = descriptors
        self._popen = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[channel, life],
            env=environment,
            start_new_session=True,
        )
        self.pid = self._popen.pid

    @property
    def reaped(self) -> bool:
        """Whether the exit status was collected."""
        return self._popen.returncode is not None

    def exited(self) -> bool:
        """Whether the process has ended. It stays unreaped, so that no other process can get its PID."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def reap(self, limit: float) -> int | None:
        """Its exit status, negative for a signal; None if it has not ended within `limit` seconds."""
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout=limit)
        return self._popen.returncode


class ProcessHandle(NamedTuple):
    """A started process, and the parent's descriptors for it."""

    child: SpawnedProcess | ForkedProcess
    channel: socket.socket
    output: int
    life_end: int
    mark: str
    space: Space | None

    def signal(self, number: int) -> None:
        """Send a signal to the process and its group."""
        if not self.child.reaped:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.child.pid, number)

    def finish(self) -> None:
        """End the process and all that it has started, and close the descriptors."""
        if self.space is not None and not self.child.exited():  # the supervisor ends all processes, then itself
            self.signal(signal.SIGCONT)
            signal_all(children(self.child.pid), signal.SIGKILL)
            until = time.monotonic() + KILL_LIMIT
            while not self.child.exited() and time.monotonic() < until:
                time.sleep(0.001)
        self.signal(signal.SIGKILL)
        signal_all(_marked(self.mark), signal.SIGKILL)
        self.channel.close()
        os.close(self.output)
        os.close(self.life_end)
        self.child.reap(KILL_LIMIT)
        if self.space is not None:
            take_down(self.space)


class Process:
    """A worker's process, in a session of its own and marked, so that all it starts dies with it.

    It is bound to these `cores`, if any. A `fresh` process is an interpreter of its own; others are forked, if the
    system allows it, from a server that has imported the worker and the module of their `service`. A `sandboxed`
    process has a supervisor, whose PID is `pid`, and a folder of its own. Each of its processes may take `memory`
    bytes, and their sum too, which is checked if `memory_watched`; 0 means no limit.

    `send` and `receive` raise EOFError if the process is gone or `cancelled` is set, and TimeoutError at the deadline,
    a time of `time.monotonic`.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        cores: Collection[int] = (),
        *,
        service: str = "",
        fresh: bool = False,
        sandboxed: bool = False,
        memory: int = 0,
        memory_watched: bool = True,
        cancelled: Event | None = None,
    ) -> None:
        begun = _start(environment, cores, service, sandboxed, memory, fresh)
        self._begun, self._child, self._channel, self._output = begun, begun.child, begun.channel, begun.output
        self._space = begun.space
        self._memory, self._memory_watched, self._memory_checked = memory, memory_watched, 0.0
        self._cancelled = cancelled or Event()
        self._channel.setblocking(False)
        os.set_blocking(self._output, False)
        self._printed, self._printed_bytes = bytearray(), 0
        self._tokens: list[bytes] = []
        """The tokens of the expected replies, the next one first."""
        self._poll = select.poll()
        self._poll.register(self._output, select.POLLIN)
        self._waits_for = 0
        """The awaited event of the channel."""
        # Even without a call of `end`: no process may outlive the suite.
        self._finish = weakref.finalize(self, begun.finish)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._child.pid

    @property
    def folder(self) -> str:
        """The folder of a sandboxed process."""
        return self._space.folder if self._space else ""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The names of the mechanisms that sandbox it."""
        return tuple(mechanism.name for mechanism in chosen(self._space.mechanisms)) if self._space else ()

    @property
    def printed(self) -> str:
        """The last output of the process."""
        return self._printed.decode(errors="replace").strip()

    def forget(self) -> None:
        """Discard the output so far, which does not belong to the next request."""
        self._keep_printed()
        self._printed.clear()
        self._printed_bytes = 0

    def send(self, message: Any, deadline: float, replies: int = 1) -> None:
        """Send a message, then the tokens of its `replies` replies.

        Raises `InvalidMessage` after an unexpected message of the process.
        """
        self._check_nothing_unexpected()
        self._send(pack(message), deadline)
        self.allow(replies, deadline)

    def allow(self, replies: int, deadline: float) -> None:
        """Send the tokens of `replies` replies."""
        tokens = [secrets.token_bytes(TOKEN) for _ in range(replies)]
        self._tokens += tokens
        self._send(map(memoryview, tokens), deadline)

    def is_silent(self, until: float) -> bool:
        """Wait for the beginning of a reply until this time; whether none began."""
        with suppress(TimeoutError):
            self._wait(select.POLLIN, until)
            return False
        return True

    def receive(self, kind: Any, deadline: float) -> Any:
        """The next reply, of this kind. Raises `InvalidMessage` for another kind, `LimitExceeded` for a large one."""
        self._read_token(deadline)
        try:
            largest = self._memory // REPLY_SHARE or STORAGE_LIMIT
            reply = unpack(lambda buffer: self._read_into(buffer, deadline), kind, largest)
        except MessageTooLarge as error:
            raise LimitExceeded(f"replied with more than {error}") from None
        if not self._tokens:
            self._check_nothing_unexpected()
        self._check_limits()  # limits are else checked only while waiting
        return reply

    def take_turn(self, turn: bytes, inputs: Sequence[memoryview], deadline: float, largest: int) -> TurnResult | None:
        """The reply to inputs in one turn, and the seconds from sending them until the reply was complete.

        None if the turn fails: the response to the request has the reason. `LimitExceeded` for more than `largest`
        bytes.
        """
        self._send([memoryview(turn)], deadline)
        if self._head(READY, deadline) is None:
            return None
        began = time.perf_counter()
        self._send(inputs, deadline)
        if (size := self._head(REPLIED, deadline)) is None:
            return None
        if size > largest:
            raise LimitExceeded(f"replied with more than {largest / (1 << 30):.2g} GiB")
        reply = bytearray(size)
        self._read_into(memoryview(reply), deadline)
        return time.perf_counter() - began, reply

    def end_turns(self, deadline: float) -> None:
        """Send the end of the turns."""
        self._send([memoryview(END)], deadline)

    def _head(self, expected: bytes, deadline: float) -> int | None:
        """The size after this byte; None if the process reports a failure, `InvalidMessage` for anything else."""
        head = bytearray(HEAD.size)
        self._read_into(memoryview(head), deadline)
        if head == HEAD.pack(FAILED, 0):
            return None
        kind, size = HEAD.unpack(head)
        if kind != expected:
            raise InvalidMessage(UNEXPECTED_REPLY)
        return int(size)

    def _send(self, parts: Iterable[memoryview], deadline: float) -> None:
        rest = list(parts)
        while rest:
            try:
                sent = self._channel.sendmsg(rest[:PARTS])
            except BlockingIOError:
                self._wait(select.POLLOUT, deadline)
                continue
            except (BrokenPipeError, ConnectionResetError) as error:
                raise EOFError from error
            rest = list(beyond(sent, rest))

    def _read_into(self, buffer: memoryview, deadline: float) -> None:
        filled = 0
        while filled < buffer.nbytes:
            try:
                count = self._channel.recv_into(buffer[filled : filled + PIECE])
            except BlockingIOError:
                self._wait(select.POLLIN, deadline)
                continue
            except ConnectionResetError as error:
                raise EOFError from error
            if count == 0:
                raise EOFError
            filled += count

    def _read_token(self, deadline: float) -> None:
        """Read the token of the next reply. `InvalidMessage` at the first byte that differs."""
        expected, byte = self._tokens.pop(0) if self._tokens else b"", bytearray(1)
        for number in range(TOKEN):
            self._read_into(memoryview(byte), deadline)
            if byte != expected[number : number + 1]:
                raise InvalidMessage(UNEXPECTED_REPLY)

    def _check_nothing_unexpected(self) -> None:
        """Raise `InvalidMessage` after an unexpected message."""
        with suppress(BlockingIOError, ConnectionResetError):
            if not self._tokens and self._channel.recv(1, socket.MSG_PEEK):
                raise InvalidMessage(UNEXPECTED_REPLY)

    def suspend(self) -> None:
        """Stop the process and its children until `resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue the process and its children."""
        self._signal(signal.SIGCONT)

    def move(self, cores: Collection[int]) -> None:
        """Bind the process and all that it has started to these cores, if the system allows it."""
        if not cores or not hasattr(os, "sched_setaffinity"):
            return
        for _ in range(3):  # repeated for processes started meanwhile
            for thread in self._threads():
                with suppress(OSError):  # it has ended
                    os.sched_setaffinity(thread, cores)

    def _threads(self) -> Iterator[int]:
        """The threads of every process of the session, and of descendants that have left it."""
        others = set(descendants(self.pid))
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended
                if int(process.name) in others or os.getsid(int(process.name)) == self.pid:
                    yield from (int(thread.name) for thread in (process / "task").iterdir())

    def end(self, grace: float = 0.0) -> str:
        """Kill the running processes; how the process ended: `SIGSEGV`, `exit status 3`, `closed its channel`."""
        if not self._finish.alive:
            return "ended"
        waits_until = time.monotonic() + (0.0 if self._cancelled.is_set() else grace)
        while not self._child.exited() and time.monotonic() < waits_until:
            self._keep_printed()
            time.sleep(0.01)
        exited = self._child.exited()
        if self._space is None:  # else its supervisor ends the others before itself
            self._signal(signal.SIGKILL)
        self._keep_printed()
        self._finish()
        if not exited:
            return "closed its channel"
        status = self._child.reap(0.0)
        if status is None:  # its server ended first
            return "ended with an unknown status"
        return ending(status)

    def _wait(self, event: int, deadline: float) -> None:
        """Wait until the channel is ready, reading what the process prints meanwhile."""
        channel = self._channel.fileno()
        if event != self._waits_for:
            self._poll.register(channel, event)
            self._waits_for = event
        exited = False
        while True:
            remaining = deadline - time.monotonic()
            ready = {descriptor for descriptor, _ in self._poll.poll(min(max(remaining, 0), 0.25) * 1000)}
            if self._output in ready:
                self._keep_printed()
            if channel in ready:
                return
            self._check_limits()
            if remaining <= 0:
                raise TimeoutError
            if exited or self._cancelled.is_set():  # after its exit, a child of its own may hold the channel open
                raise EOFError
            exited = self._child.exited()

    def _check_limits(self) -> None:
        if self._printed_bytes > PRINTED_LIMIT:
            raise LimitExceeded(f"printed more than {PRINTED_LIMIT >> 20} MiB")
        if self._memory and self._memory_watched and time.monotonic() - self._memory_checked > MEMORY_CHECK_INTERVAL:
            self._memory_checked = time.monotonic()
            if taken(self.pid, Path(self.folder or "/"), self._memory) > self._memory:
                raise LimitExceeded(f"took more than {self._memory / (1 << 30):.1f} GiB of memory")

    def _keep_printed(self) -> None:
        for _ in range(64):  # bounded: it may print faster than this reads
            try:
                text = os.read(self._output, PIECE)
            except BlockingIOError:
                return
            if not text:
                with suppress(KeyError):
                    self._poll.unregister(self._output)
                return
            self._printed += text
            self._printed_bytes += len(text)
            del self._printed[:-PRINTED_KEPT]

    def _signal(self, number: int) -> None:
        if self._finish.alive:
            self._begun.signal(number)
            if self._space and not self._child.reaped:
                signal_all(descendants(self.pid), number)  # also those that have left the group


def _start(
    added: Mapping[str, str], cores: Collection[int], service: str, sandboxed: bool, memory: int, fresh: bool
) -> ProcessHandle:
    """Start a worker's process; see `Process`."""
    space, mark, environment = None, uuid4().hex, environment_of(added)
    if sandboxed:
        sweep()
        space = make_space(environment, detected(), memory)

    def interpreter(descriptors: Sequence[int]) -> SpawnedProcess:
        ends = str(descriptors[0]), str(descriptors[2]), msgspec.json.encode(space).decode()
        command = [sys.executable, "-P", "-m", "attnsuite.worker.sandbox.supervisor", *ends]
        with bound(cores):
            return SpawnedProcess(command, descriptors, {**environment, MARK: mark})

    with ExitStack() as undo:
        if space:
            undo.callback(take_down, space)
        forked = None if fresh else _forked(added, cores, service, mark, space)
        begun = forked or _begin(interpreter, mark, space)
        assert begun is not None, "an interpreter starts or raises"
        undo.pop_all()
    return begun


def _forked(
    added: Mapping[str, str], cores: Collection[int], service: str, mark: str, space: Space | None
) -> ProcessHandle | None:
    """A worker forked by a server, or by another one if that server has ended; None if neither can."""
    for _ in range(2):
        server = server_of(added, cores, service)
        if server is None:
            return None
        begun = _begin(partial(server.fork, mark=mark, cores=cores, sandbox=space), mark, space)
        if begun or server.alive:
            return begun
    return None


def _begin(
    start: Callable[[Sequence[int]], SpawnedProcess | ForkedProcess | None], mark: str, space: Space | None
) -> ProcessHandle | None:
    """Start a process with a channel, an output and a life pipe; None if `start` returns None.

    Nothing is written to the life pipe: when the parent's end is closed, the system kills the process's group.
    """
    channel, child_end = socket.socketpair()
    output, child_output = os.pipe()
    life, life_end = os.pipe()
    child = None
    try:
        child = start([child_end.fileno(), child_output, life])
    finally:
        child_end.close()
        os.close(child_output)
        os.close(life)
        if child is None:
            channel.close()
            os.close(output)
            os.close(life_end)
    return ProcessHandle(child, channel, output, life_end, mark, space) if child else None


def _marked(mark: str) -> Iterator[int]:
    """The processes that inherited the mark, also those that left the session (Linux)."""
    inherited = f"{MARK}={mark}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or belongs to another user
            if inherited in (process / "environ").read_bytes().split(b"\0"):
                yield int(process.name)
