"""The parent's end of a worker: its process, a private channel to it, and the last that it printed."""

from __future__ import annotations

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
from attnsuite.worker.forkserver import MARK, WORKER, ForkedProcess, bound, environment_of, server_of
from attnsuite.worker.messages import STORAGE_LIMIT, TOKEN, InvalidMessage, MessageTooLarge, pack, unpack
from attnsuite.worker.sandbox import MECHANISMS, Space, chosen, detected, sweep, take_down
from attnsuite.worker.sandbox.memory import taken
from attnsuite.worker.sandbox.processes import children, descendants, ending, signal_all
from attnsuite.worker.sandbox.space import make_space
from attnsuite.worker.turns import END, FAILED, HEAD, READY, REPLIED, TurnResult, beyond

PRINTED_KEPT, PRINTED_LIMIT = 8_000, 1 << 26
"""Bytes of what the process printed that are kept, the last ones; and that it may print while it answers a request."""
UNEXPECTED_REPLY = "a reply out of turn: something else than the worker wrote to its channel"
MEMORY_CHECK_INTERVAL = 0.25
"""Seconds between two looks at the memory that a process takes while it answers."""
REPLY_SHARE = 4
"""A reply may have this part of the memory that its process may take: the suite holds it next to what is expected."""
PIECE, PARTS = 1 << 20, 64
"""Bytes that are received at once, and parts of a message that are sent at once; systems take a thousand."""


class LimitExceeded(Exception):
    """The process takes more than it may of something; the message says of what."""


def wanted() -> list[str]:
    """The names of the mechanisms that sandbox a worker, where the machine has them: all."""
    return [mechanism.name for mechanism in MECHANISMS]


class SpawnedProcess:
    """The parent's view of a worker that is an interpreter of its own. For one that was forked it is
    `ForkedProcess`.
    """

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
        return self._popen.returncode is not None

    def exited(self) -> bool:
        """Whether the process has ended. It is not reaped by this, so that no other process can get its number."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def reap(self, limit: float) -> int | None:
        """The status that it ended with, negative for a signal; None where it has not ended in these seconds."""
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout=limit)
        return self._popen.returncode


class ProcessHandle(NamedTuple):
    """A process that was started, and what of it is ours."""

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
        """End the process and all that it has started, and let go of what is ours."""
        if self.space is not None and not self.child.exited():  # let the supervisor end all, and then itself
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
    """A process that runs `attnsuite.worker`, in a session of its own and marked, so that all it starts dies with it.

    It is bound to these `cores`, where any are given. A `fresh` one is an interpreter of its own; others are forked,
    where the system can, from one that has imported what they share: the worker, and the module of their `service`. A
    `sandboxed` one has a supervisor, whose number `pid` is, and a folder for itself; each of its processes may take
    `memory` bytes, and all of them together, which is looked at where it is `memory_watched`. 0 is no limit.

    `send` and `receive` raise EOFError where the process is gone or all is `cancelled`, and TimeoutError at the
    deadline, which is a time of `time.monotonic`.
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
        self._memory, self._memory_watched, self._looked = memory, memory_watched, 0.0
        self._cancelled = cancelled or Event()
        self._channel.setblocking(False)
        os.set_blocking(self._output, False)
        self._printed, self._printed_bytes = bytearray(), 0
        self._tokens: list[bytes] = []
        """The numbers of the replies that are expected, the next one first."""
        self._poll = select.poll()
        self._poll.register(self._output, select.POLLIN)
        self._waits_for = 0
        """The event of the channel that is waited for."""
        # Also where `end` is not called: nothing that the suite starts may outlive it.
        self._finish = weakref.finalize(self, begun.finish)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def folder(self) -> str:
        """The folder that a sandboxed process has for itself."""
        return self._space.folder if self._space else ""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The names of the mechanisms that sandbox it."""
        return tuple(mechanism.name for mechanism in chosen(self._space.mechanisms)) if self._space else ()

    @property
    def printed(self) -> str:
        return self._printed.decode(errors="replace").strip()

    def forget(self) -> None:
        """Drop what was printed so far: it has nothing to do with the next request."""
        self._keep_printed()
        self._printed.clear()
        self._printed_bytes = 0

    def send(self, message: Any, deadline: float, replies: int = 1) -> None:
        """Send a message, and after it the numbers under which so many replies to it will come.

        Raises `InvalidMessage` where something came that was not asked for.
        """
        self._nothing_more()
        self._send(pack(message), deadline)
        self.allow(replies, deadline)

    def allow(self, replies: int, deadline: float) -> None:
        """Send the numbers under which so many replies will come."""
        tokens = [secrets.token_bytes(TOKEN) for _ in range(replies)]
        self._tokens += tokens
        self._send(map(memoryview, tokens), deadline)

    def is_silent(self, until: float) -> bool:
        """Wait for the beginning of a reply until this time; whether there was none."""
        with suppress(TimeoutError):
            self._wait(select.POLLIN, until)
            return False
        return True

    def receive(self, kind: Any, deadline: float) -> Any:
        """The next reply, of this kind. Raises `InvalidMessage` for another, and `LimitExceeded` for one that is too
        large.
        """
        self._read_token(deadline)
        try:
            largest = self._memory // REPLY_SHARE or STORAGE_LIMIT
            reply = unpack(lambda buffer: self._read_into(buffer, deadline), kind, largest)
        except MessageTooLarge as error:
            raise LimitExceeded(f"replied with more than {error}") from None
        if not self._tokens:
            self._nothing_more()
        self._look_at_limits()  # a process that answers at once was never waited for
        return reply

    def take_turn(self, turn: bytes, inputs: Sequence[memoryview], deadline: float, largest: int) -> TurnResult | None:
        """What the process answers to inputs in one turn, and the seconds from sending them until all of it was here.

        None where it fails: its response says why. `LimitExceeded` for more than `largest` bytes.
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
        answer = bytearray(size)
        self._read_into(memoryview(answer), deadline)
        return time.perf_counter() - began, answer

    def end_turns(self, deadline: float) -> None:
        """Say that there are no more turns."""
        self._send([memoryview(END)], deadline)

    def _head(self, expected: bytes, deadline: float) -> int | None:
        """The size after this byte; None where the process says that it failed, `InvalidMessage` for anything else."""
        head = bytearray(HEAD.size)
        self._read_into(memoryview(head), deadline)
        if head == HEAD.pack(FAILED, 0):
            return None
        said, size = HEAD.unpack(head)
        if said != expected:
            raise InvalidMessage(UNEXPECTED_REPLY)
        return int(size)

    def _send(self, parts: Iterable[memoryview], deadline: float) -> None:
        left = list(parts)
        while left:
            try:
                sent = self._channel.sendmsg(left[:PARTS])
            except BlockingIOError:
                self._wait(select.POLLOUT, deadline)
                continue
            except (BrokenPipeError, ConnectionResetError) as error:
                raise EOFError from error
            left = list(beyond(sent, left))

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
        """Read the number that the next reply begins with. `InvalidMessage` as soon as it cannot be that."""
        expected, byte = self._tokens.pop(0) if self._tokens else b"", bytearray(1)
        for number in range(TOKEN):
            self._read_into(memoryview(byte), deadline)
            if byte != expected[number : number + 1]:
                raise InvalidMessage(UNEXPECTED_REPLY)

    def _nothing_more(self) -> None:
        """Raise `InvalidMessage` where more has come than was asked for."""
        with suppress(BlockingIOError, ConnectionResetError):
            if not self._tokens and self._channel.recv(1, socket.MSG_PEEK):
                raise InvalidMessage(UNEXPECTED_REPLY)

    def suspend(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def move(self, cores: Collection[int]) -> None:
        """Bind the process and all that it has started to these cores, where the system allows."""
        if not cores or not hasattr(os, "sched_setaffinity"):
            return
        for _ in range(3):  # again, for what has been started meanwhile
            for thread in self._threads():
                with suppress(OSError):  # it has ended
                    os.sched_setaffinity(thread, cores)

    def _threads(self) -> Iterator[int]:
        """The threads of every process of the session, and of those that have left it, where they are found."""
        left = set(descendants(self.pid))
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended
                if int(process.name) in left or os.getsid(int(process.name)) == self.pid:
                    yield from (int(thread.name) for thread in (process / "task").iterdir())

    def end(self, grace: float = 0.0) -> str:
        """Kill what still runs, and say how the process ended: `SIGSEGV`, `exit status 3`, `closed its channel`."""
        if not self._finish.alive:
            return "ended"
        waits_until = time.monotonic() + (0.0 if self._cancelled.is_set() else grace)
        while not self._child.exited() and time.monotonic() < waits_until:
            self._keep_printed()
            time.sleep(0.01)
        exited = self._child.exited()
        if self._space is None:  # else its supervisor has to find what is left, before it ends itself
            self._signal(signal.SIGKILL)
        self._keep_printed()
        self._finish()
        if not exited:
            return "closed its channel"
        status = self._child.reap(0.0)
        if status is None:  # the server that forked it has ended before
            return "nobody is left who knows how"
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
            self._look_at_limits()
            if remaining <= 0:
                raise TimeoutError
            if exited or self._cancelled.is_set():  # has it exited, a child of its own holds the channel open
                raise EOFError
            exited = self._child.exited()

    def _look_at_limits(self) -> None:
        if self._printed_bytes > PRINTED_LIMIT:
            raise LimitExceeded(f"printed more than {PRINTED_LIMIT >> 20} MiB")
        if self._memory and self._memory_watched and time.monotonic() - self._looked > MEMORY_CHECK_INTERVAL:
            self._looked = time.monotonic()
            if taken(self.pid, Path(self.folder or "/"), self._memory) > self._memory:
                raise LimitExceeded(f"took more than {self._memory / (1 << 30):.1f} GiB of memory")

    def _keep_printed(self) -> None:
        for _ in range(64):  # not for ever: it may print faster than we read
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
                signal_all(descendants(self.pid), number)  # those that have left the group, too


def _start(
    added: Mapping[str, str], cores: Collection[int], service: str, sandboxed: bool, memory: int, fresh: bool
) -> ProcessHandle:
    """Start a worker's process, as `Process` says."""
    space, mark, environment = None, uuid4().hex, environment_of(added)
    if sandboxed:
        sweep()
        mechanisms = [name for name in detected() if name in wanted()]
        space = make_space(environment, mechanisms, memory)

    def interpreter(descriptors: Sequence[int]) -> SpawnedProcess:
        ends = [str(descriptors[0]), str(descriptors[2])]
        module = ["attnsuite.worker", *ends]
        if space:
            module = ["attnsuite.worker.sandbox.supervisor", WORKER, *ends, msgspec.json.encode(space).decode()]
        with bound(cores):
            return SpawnedProcess([sys.executable, "-P", "-m", *module], descriptors, {**environment, MARK: mark})

    with ExitStack() as undo:
        if space:
            undo.callback(take_down, space)
        forked = None if fresh else _forked(added, cores, service, mark, space)
        begun = forked or _begin(interpreter, mark, space)
        if begun is None:
            raise RuntimeError("no process was started")
        undo.pop_all()
    return begun


def _forked(
    added: Mapping[str, str], cores: Collection[int], service: str, mark: str, space: Space | None
) -> ProcessHandle | None:
    """A worker that a server has forked, or, where that server has ended, another server; None where none can."""
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
    """Start a process with a channel, an output and a life; None where `start` returns None.

    Its life is a pipe that is never written to: when our end of it is closed, the system kills its group.
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
    """The processes that inherited the mark, those that left the session included (Linux)."""
    inherited = f"{MARK}={mark}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is not ours
            if inherited in (process / "environ").read_bytes().split(b"\0"):
                yield int(process.name)
