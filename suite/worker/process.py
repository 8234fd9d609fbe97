"""The parent's end of a worker: a process, a private channel to it, and the last that it printed."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from suite.records.limits import KILL_LIMIT
from suite.worker.forkserver import Forked, bound, server_of
from suite.worker.server import MARK
from suite.worker.wire import pack, unpack

PRINTED_LIMIT = 8_000
"""How many bytes of what the process printed are kept: the last ones."""
PIECE = 1 << 20
"""Bytes that are sent or received at once at most."""


class Fresh:
    """The parent's view of a worker that is an interpreter of its own. For one that was forked it is `Forked`."""

    def __init__(
        self, inherited: Sequence[int], mark: str, cores: Collection[int], environment: Mapping[str, str]
    ) -> None:
        channel, output, life = inherited
        with bound(cores):
            self._popen = subprocess.Popen(
                [sys.executable, "-P", "-m", "suite.worker", str(channel), str(life)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[channel, life],
                env={**environment, MARK: mark},
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


def expect(environment: Mapping[str, str], cores: Collection[int] = (), service: str = "") -> None:
    """Begin to import what workers with this environment, service and number of cores share, in the background."""
    server_of(_environment(environment), cores, _modules(service))


def _modules(service: str) -> list[str]:
    """The modules that a service, `module:function`, needs; none where there is no service."""
    return [service.partition(":")[0]] if service else []


class Process:
    """A process that runs `suite.worker`, in a session of its own and marked, so that all it starts dies with it.

    It is bound to these `cores`, where any are given. A `fresh` one is an interpreter of its own; others are forked,
    where the system can, from one that has imported what they share: the worker, and the module of their `service`.

    `send` and `receive` raise EOFError where the process is gone and TimeoutError at the deadline, which is a time of
    `time.monotonic`.
    """

    def __init__(
        self, environment: Mapping[str, str], cores: Collection[int] = (), *, service: str = "", fresh: bool = False
    ) -> None:
        mark, everything = uuid4().hex, _environment(environment)
        begun = None if fresh else _forked(mark, cores, everything, _modules(service))
        begun = begun or _begun(lambda inherited: Fresh(inherited, mark, cores, everything))
        if begun is None:
            raise RuntimeError("no process was started")
        self._started, channel, output, held = begun
        channel.setblocking(False)
        os.set_blocking(output, False)
        self._channel = channel
        self._output = output
        self._printed = bytearray()
        self._poll = select.poll()
        self._poll.register(output, select.POLLIN)
        # Also where nobody calls `end`: nothing that the suite starts may outlive it.
        self._finish = weakref.finalize(self, _finish, self._started, mark, channel, output, held)

    @property
    def pid(self) -> int:
        return self._started.pid

    @property
    def printed(self) -> str:
        return self._printed.decode(errors="replace").strip()

    def forget(self) -> None:
        """Drop what was printed so far: it has nothing to do with the next question."""
        self._keep_printed()
        self._printed.clear()

    def send(self, message: Any, deadline: float) -> None:
        for part in pack(message):
            sent = 0
            while sent < part.nbytes:
                self._until(select.POLLOUT, deadline)
                with suppress(BlockingIOError):
                    try:
                        sent += self._channel.send(part[sent : sent + PIECE])
                    except (BrokenPipeError, ConnectionResetError) as error:
                        raise EOFError from error

    def receive(self, deadline: float) -> Any:
        def read_into(buffer: memoryview) -> None:
            filled = 0
            while filled < buffer.nbytes:
                self._until(select.POLLIN, deadline)
                with suppress(BlockingIOError):
                    try:
                        count = self._channel.recv_into(buffer[filled : filled + PIECE])
                    except ConnectionResetError as error:
                        raise EOFError from error
                    if count == 0:
                        raise EOFError
                    filled += count

        return unpack(read_into)

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
        """The threads of every process of the session."""
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended
                if os.getsid(int(process.name)) == self.pid:
                    yield from (int(thread.name) for thread in (process / "task").iterdir())

    def end(self, grace: float = 0.0) -> str:
        """Kill what still runs, and say how the process ended: `SIGSEGV`, `exit status 3`, `closed its channel`."""
        if not self._finish.alive:
            return "ended"
        waits_until = time.monotonic() + grace
        while not self._started.exited() and time.monotonic() < waits_until:
            self._keep_printed()
            time.sleep(0.01)
        exited = self._started.exited()
        self._signal(signal.SIGKILL)
        self._keep_printed()
        self._finish()
        if not exited:
            return "closed its channel"
        status = self._started.reap(0.0)
        if status is None:  # whoever forked it has ended before
            return "nobody is left who knows how"
        if status >= 0:
            return f"exit status {status}"
        try:
            return signal.Signals(-status).name
        except ValueError:  # a real-time signal
            return f"signal {-status}"

    def _until(self, event: int, deadline: float) -> None:
        """Wait until the channel is ready, reading what the process prints meanwhile."""
        self._poll.register(self._channel, event)
        exited = False
        while True:
            remaining = deadline - time.monotonic()
            ready = dict(self._poll.poll(min(max(remaining, 0), 0.25) * 1000))
            if self._output in ready:
                self._keep_printed()
            if self._channel.fileno() in ready:
                return
            if remaining <= 0:
                raise TimeoutError
            if exited:  # yet the channel is open: a child of its own holds it
                raise EOFError
            exited = self._started.exited()

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
            del self._printed[:-PRINTED_LIMIT]

    def _signal(self, number: int) -> None:
        if self._finish.alive:
            _signal_group(self._started, number)


Begun = tuple["Fresh | Forked", socket.socket, int, int]
"""A process that was started, and our ends of its channel, its output and its life."""


def _forked(mark: str, cores: Collection[int], environment: Mapping[str, str], modules: Sequence[str]) -> Begun | None:
    """A worker that a server has forked, or, where that server has ended, another server; None where none can."""
    for _ in range(2):
        server = server_of(environment, cores, modules)
        if server is None:
            return None
        begun = _begun(partial(server.fork, mark=mark, cores=cores))
        if begun or server.alive:
            return begun
    return None


def _begun(start: Callable[[Sequence[int]], Fresh | Forked | None]) -> Begun | None:
    """Start a process with a channel, an output and a life; None where `start` returns None.

    Its life is a pipe that is never written to: when nobody holds our end of it any more, the system kills its group.
    """
    channel, theirs = socket.socketpair()
    output, their_output = os.pipe()
    life, held = os.pipe()
    started = None
    try:
        started = start([theirs.fileno(), their_output, life])
    finally:
        theirs.close()
        os.close(their_output)
        os.close(life)
        if started is None:
            channel.close()
            os.close(output)
            os.close(held)
    return (started, channel, output, held) if started else None


def _signal_group(started: Fresh | Forked, number: int) -> None:
    if not started.reaped:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(started.pid, number)


def _finish(started: Fresh | Forked, mark: str, channel: socket.socket, output: int, held: int) -> None:
    _signal_group(started, signal.SIGKILL)
    for process in _marked(mark):
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)
    channel.close()
    os.close(output)
    os.close(held)
    started.reap(KILL_LIMIT)


def _marked(mark: str) -> Iterator[int]:
    """The processes that inherited the mark, those that left the session included (Linux)."""
    inherited = f"{MARK}={mark}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is not ours
            if inherited in (process / "environ").read_bytes().split(b"\0"):
                yield int(process.name)


def _environment(added: Mapping[str, str]) -> dict[str, str]:
    environment = {**os.environ, **added}
    root = Path(__file__).resolve().parent.parent.parent
    if root.name not in ("site-packages", "dist-packages"):  # a checkout, which no other interpreter knows of
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(root), environment.get("PYTHONPATH"))))
    return environment
