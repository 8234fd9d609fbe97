"""A process that has imported all that workers share, and forks into them: an import of PyTorch takes most of a start.

What is read when a process starts (the thread counts and limits of libraries, of the allocator, the number of cores) is
the same in all that one server forks; so there is a server for each environment and number of cores.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from suite.records.limits import TIME_LIMIT

MARK = "ATTNSUITE_WORKER"
"""The environment variable by which whatever a worker started is known."""
SHARED = ("suite.worker.__main__", "suite.measure.serving")
"""What every worker imports before its implementation."""
START_LIMIT = TIME_LIMIT
"""Seconds for the first answer of a server, which comes after its imports."""
ANSWER_LIMIT = 10.0
"""Seconds for each later answer of a server: it only forks."""
MOST = 6
"""How many servers are kept, those asked last: each holds an interpreter with PyTorch in it."""
MESSAGE = 1 << 16
_MAIN = "import sys; from suite.worker.forkserver import main; main(*map(int, sys.argv[1:]))"
PASSING = "PYTEST_CURRENT_TEST"
"""A variable that pytest changes all the time and that no library reads as it starts."""


class Forked:
    """A worker that a server has forked, from outside: as `Fresh` is one that was started by itself."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self.pid = pid
        self._server = server
        self._ends = os.pidfd_open(pid)
        self._close = weakref.finalize(self, os.close, self._ends)
        self._status: int | None = None

    @property
    def reaped(self) -> bool:
        """Whether its number may be another's by now: it was reaped here, or by the system as its server had ended."""
        return not self._close.alive or (not self._server.alive and self._has_ended(0.0))

    def exited(self) -> bool:
        """Whether the process has ended."""
        return not self._close.alive or self._has_ended(0.0)

    def reap(self, limit: float) -> int | None:
        """The status that it ended with, negative for a signal; None where that cannot be learned in these seconds."""
        if self._close.alive and self._has_ended(limit):
            self._close()
            self._status = self._server.reap(self.pid)
        return self._status

    def _has_ended(self, limit: float) -> bool:
        poll = select.poll()
        poll.register(self._ends, select.POLLIN)
        return bool(poll.poll(limit * 1000))


class ForkServer:
    """The parent's end of one server, which ends with it. It may be asked from several threads."""

    def __init__(self, environment: Mapping[str, str], cores: Collection[int] = ()) -> None:
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        life, held = os.pipe()
        with theirs:
            try:
                with bound(cores):
                    popen = subprocess.Popen(
                        [sys.executable, "-P", "-c", _MAIN, str(theirs.fileno()), str(life)],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        pass_fds=[theirs.fileno(), life],
                        env={**environment, MARK: "0" * 32},  # as long as those that will be written over it
                        start_new_session=True,
                    )
            except BaseException:
                control.close()
                os.close(held)
                raise
            finally:
                os.close(life)
        control.settimeout(START_LIMIT)
        self._control, self._popen = control, popen
        self._asking, self._asker = threading.Lock(), 0
        self.end = weakref.finalize(self, _end, popen, control, held)

    @property
    def alive(self) -> bool:
        return self.end.alive and self._popen.poll() is None

    def ready(self) -> None:
        """Wait until it has imported what it shares."""
        self._ask({"ready": True})

    def fork(self, descriptors: Collection[int], mark: str, cores: Collection[int]) -> Forked | None:
        """A worker with a channel, an output and a life; None where the server has failed."""
        asked: dict[str, Any] = {"mark": mark, "cores": sorted(cores or os.sched_getaffinity(0))}
        answer = self._ask({**asked, "at": _here(), PASSING: os.environ.get(PASSING)}, descriptors)
        if answer is not None:
            with suppress(OSError):  # both have ended meanwhile
                return Forked(self, answer)
        return None

    def reap(self, pid: int) -> int | None:
        """The status of a worker that has ended; None where that cannot be learned."""
        if self._asker == threading.get_ident():  # it was forgotten, and is collected in the middle of a question
            return None
        return self._ask({"reap": pid})

    def _ask(self, message: Mapping[str, Any], descriptors: Collection[int] = ()) -> int | None:
        with self._asking:
            if not self.end.alive:
                return None
            self._asker, said = threading.get_ident(), b""
            try:
                socket.send_fds(self._control, [json.dumps(message).encode()], list(descriptors))
                said = self._control.recv(MESSAGE)
                self._control.settimeout(ANSWER_LIMIT)  # its imports are over
            except OSError:
                pass
            finally:
                self._asker = 0
                if not said:  # after Ctrl-C as well: what comes later would answer another question
                    self.end()
        answer: int | None = json.loads(said or b"null")
        return answer


def server_of(environment: Mapping[str, str], cores: Collection[int] = ()) -> ForkServer | None:
    """The server of workers with this environment and as many cores, or not bound to any, which may still be starting.

    None where the system has none.
    """
    if not _can_wait():
        return None
    variables = frozenset((name, value) for name, value in environment.items() if name != PASSING)
    key = os.getpid(), len(cores), variables
    with _starting:
        found = _servers.pop(key, None)
        if found is None or not found.alive:
            found = ForkServer(environment, cores)
        _servers[key] = found
        for oldest in list(_servers)[:-MOST]:
            del _servers[oldest]  # it ends with the last of its workers
    return found


_servers: dict[tuple[int, int, frozenset[tuple[str, str]]], ForkServer] = {}
_starting = threading.Lock()


def await_servers() -> None:
    """Wait until all servers that were started have imported what they share."""
    with _starting:
        found = list(_servers.values())
    for each in found:
        each.ready()


def forget_servers() -> None:
    """Fork what comes from servers of its own: from one to the next it differs where a process has its memory."""
    with _starting:
        _servers.clear()  # each ends with the last of its workers


@contextmanager
def bound(cores: Collection[int]) -> Iterator[None]:
    """Bind this thread to the cores meanwhile: what it starts inherits that, before its first library counts cores."""
    if not cores or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _can_wait() -> bool:
    """Whether this system lets us wait for what is not our child: it may not know how, or forbid it."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return sys.platform == "linux"


def _end(popen: subprocess.Popen[bytes], control: socket.socket, held: int) -> None:
    control.close()
    os.close(held)
    popen.kill()  # it may still be importing
    with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):  # a second Ctrl-C, while the first ends everything
        popen.wait(timeout=10)


def _here() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return ""


def main(descriptor: int, life: int) -> None:
    """Serve the parent on this file descriptor until it is gone. `life` is a pipe that the parent holds open."""
    import_module(SHARED[0]).die_with_the_parent(life)
    control = socket.socket(fileno=descriptor)
    control.set_inheritable(False)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored nobody can be waited for
    for module in SHARED:
        import_module(module)
    gc.collect()
    gc.freeze()  # what is never looked at is never copied
    while True:
        said, descriptors, _, _ = socket.recv_fds(control, MESSAGE, 3, socket.MSG_CMSG_CLOEXEC)
        if not said:
            return
        message = json.loads(said)
        if "mark" in message:
            if os.fork() == 0:
                os.close(life)
                _work(control, message, descriptors)
            for each in descriptors:
                os.close(each)
        else:
            answer = os.waitstatus_to_exitcode(os.waitpid(message["reap"], 0)[1]) if "reap" in message else 0
            control.send(json.dumps(answer).encode())


def _work(control: socket.socket, message: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Say who we are, and be a worker to the end."""
    try:
        with control:
            answer = None
            try:
                channel, output, life = descriptors
                _settle_in(output, message)
                answer = os.getpid()
            finally:
                control.send(json.dumps(answer).encode())
        import_module(SHARED[0]).main(channel, life)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _settle_in(output: int, message: Mapping[str, Any]) -> None:
    """Be what a process that was started by itself would be: with a session, a mark and random numbers of its own."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)
    _mark(message["mark"])
    os.environ.pop(PASSING, None)
    if message[PASSING] is not None:
        os.environ[PASSING] = message[PASSING]
    with suppress(OSError):  # it is gone, or not ours to enter
        os.chdir(message["at"])
    if os.sched_getaffinity(0) != set(message["cores"]):
        os.sched_setaffinity(0, message["cores"])
    for module in ("torch", "numpy.random"):  # Python's own does so by itself
        if module in sys.modules:
            sys.modules[module].seed()


def _mark(mark: str) -> None:
    """Write the mark where the system reads it too: it shows the environment that a process began with."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    ctypes.memmove(getenv(MARK.encode()), mark.encode(), len(mark))
    os.environ[MARK] = mark
