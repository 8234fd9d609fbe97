"""The parent's end of the processes that workers are forked from: importing PyTorch is most of what a start takes.

Libraries read the environment and count the cores when they are imported, which here happens once, in the server. So
there is a server for each environment and number of cores.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attnsuite.model.limits import FORK_LIMIT, KILL_LIMIT, TIME_LIMIT
from attnsuite.worker.server import LONGEST_MESSAGE, MARK, MARK_LENGTH, PASSED_ON, WORKER

SERVERS_KEPT = 8
"""How many servers are kept, those asked last: each holds an interpreter with PyTorch in it. A benchmark on one thread
and on all cores has five: for the contract, and two for each number of threads where two processes are timed."""
_MAIN = "import sys; from attnsuite.worker.server import main; main(*map(int, sys.argv[1:3]), sys.argv[3:])"


class Forked:
    """The parent's view of a worker that a server has forked. For an interpreter of its own it is `Fresh`."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self.pid = pid
        self._server = server
        self._ends = os.pidfd_open(pid)
        self._close = weakref.finalize(self, os.close, self._ends)
        self._status: int | None = None

    @property
    def reaped(self) -> bool:
        """Whether another process may have its number: it was reaped here, or by the system after its server ended."""
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
    """The parent's end of one server, which ends with it. It may be asked from several threads.

    It has a channel, and holds a pipe open as long as the server is to live. A branch is no child of this process.
    """

    def __init__(self, control: socket.socket, held: int, popen: subprocess.Popen[bytes] | None = None) -> None:
        control.settimeout(TIME_LIMIT)  # it imports PyTorch first
        self._control, self._held, self._popen = control, held, popen
        self._asking, self._asker = threading.Lock(), 0
        self._expected: set[str] = set()
        self.end = weakref.finalize(self, _end, popen, control, held)

    @classmethod
    def start(
        cls, environment: Mapping[str, str], cores: Collection[int] = (), modules: Collection[str] = ()
    ) -> ForkServer:
        """A new one with this environment, bound to these cores. `modules` are imported once, before the first fork."""
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        life, held = os.pipe()
        with theirs:
            try:
                with bound(cores):
                    popen = subprocess.Popen(
                        [sys.executable, "-P", "-c", _MAIN, str(theirs.fileno()), str(life), WORKER, *modules],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        pass_fds=[theirs.fileno(), life],
                        env={**environment, MARK: "0" * MARK_LENGTH},  # `_mark` writes over it
                        start_new_session=True,
                    )
            except BaseException:
                control.close()
                os.close(held)
                raise
            finally:
                os.close(life)
        return cls(control, held, popen)

    def branch(self) -> ForkServer | None:
        """Another one, which this one forks when it has imported what they share; None where it has failed.

        It is for a process that is about to be forked, which takes it, and this one lets go of it.
        """
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        life, held = os.pipe()
        branch = ForkServer(control, held)
        try:
            with theirs, self._asking:
                if self.end.alive:
                    socket.send_fds(self._control, [json.dumps({"branch": True}).encode()], [theirs.fileno(), life])
                    return branch
        except OSError:
            self.end()
        finally:
            os.close(life)
        branch.end()
        return None

    def let_go(self) -> None:
        """Leave it to the other process that has it."""
        if self.end.detach():
            self._control.close()
            os.close(self._held)

    @property
    def alive(self) -> bool:
        """Whether it serves. Whether a branch still runs is learned only by asking it."""
        return self.end.alive and (self._popen is None or self._popen.poll() is None)

    def expect(self, modules: Collection[str]) -> None:
        """Have it import these, too, as soon as it can. Nothing is awaited."""
        with self._asking:
            if self.end.alive and (new := [each for each in modules if each not in self._expected]):
                self._expected |= set(new)
                with suppress(OSError):  # it has ended: whoever asks it next finds the same
                    self._control.send(json.dumps({"imports": new}).encode())

    def ready(self) -> None:
        """Wait until it has imported what it shares."""
        self._ask({"ready": True})

    def fork(
        self, descriptors: Collection[int], mark: str, cores: Collection[int], walls: Mapping[str, Any] | None = None
    ) -> Forked | None:
        """A worker with a channel, an output and a life, or its guard; None where the server has failed."""
        asked: dict[str, Any] = {"mark": mark, "cores": sorted(cores or os.sched_getaffinity(0)), "walls": walls}
        passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        answer = self._ask({**asked, "at": _here(), "passed_on": passed_on}, descriptors)
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
                said = self._control.recv(LONGEST_MESSAGE)
                self._control.settimeout(FORK_LIMIT)  # its imports are over
            except OSError:
                pass
            finally:
                self._asker = 0
                if not said:  # after Ctrl-C as well: what comes later would answer another question
                    self.end()
        answer: int | None = json.loads(said or b"null")
        return answer


def server_of(
    environment: Mapping[str, str], cores: Collection[int] = (), modules: Sequence[str] = ()
) -> ForkServer | None:
    """The server for workers with this environment, these imports or more, and as many cores (or bound to none).

    It may still be starting. None where the system cannot fork workers like that.
    """
    if not _can_wait():
        return None
    variables = frozenset((name, value) for name, value in environment.items() if name not in PASSED_ON)
    asked = os.getpid(), len(cores), variables, tuple(modules)
    with _starting:
        key = next((each for each in _servers if each[:3] == asked[:3] and set(each[3]) >= set(modules)), asked)
        found = _servers.pop(key, None)
        if found is None or not found.alive:
            found = ForkServer.start(environment, cores, key[3])
        _servers[key] = found
        for oldest in list(_servers)[:-SERVERS_KEPT]:
            del _servers[oldest]  # it ends with the last of its workers
    return found


Key = tuple[int, int, frozenset[tuple[str, str]], tuple[str, ...]]
"""Process, number of cores, environment and imports."""
Servers = Mapping[Key, ForkServer]
"""Those of one process, by what their workers are started with."""
_servers: dict[Key, ForkServer] = {}
_starting = threading.Lock()


@contextmanager
def branches() -> Iterator[Servers]:
    """Branches of this process's servers, for one that is forked inside the block and takes them: one asks each.

    They are of those that are bound to no cores and import nothing besides: others are for what is timed.
    """
    own = os.getpid(), 0, ()
    with _starting:
        shared = {key: each for key, each in _servers.items() if (key[0], key[1], key[3]) == own and each.alive}
        found = {key: branch for key, each in shared.items() if (branch := each.branch())}
    try:
        yield found
    finally:
        for each in found.values():
            each.let_go()


def take_servers(branched: Servers) -> None:
    """Ask these, in a process that was forked from the one which has made them, and leave the others to that one."""
    with _starting:
        for each in _servers.values():
            each.let_go()
        _servers.clear()
        _servers.update({(os.getpid(), *key[1:]): each for key, each in branched.items()})


def await_servers() -> None:
    """Wait until all servers that were started have imported what they share."""
    with _starting:
        found = list(_servers.values())
    for each in found:
        each.ready()


def forget_servers() -> None:
    """Have new servers started for the next workers.

    All that one server forks have their memory at the same addresses, which differ from server to server.
    """
    with _starting:
        _servers.clear()  # each ends with the last of its workers


@contextmanager
def bound(cores: Collection[int]) -> Iterator[None]:
    """Bind this thread to the cores meanwhile. What it starts inherits that before a library there counts the cores."""
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
    """Whether the system lets a process wait for one that is not its child: it may not be able to, or forbid it."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return sys.platform == "linux"


def _end(popen: subprocess.Popen[bytes] | None, control: socket.socket, held: int) -> None:
    control.close()
    os.close(held)
    if popen is None:
        return
    popen.kill()  # it may still be importing
    with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):  # a second Ctrl-C, while the first ends everything
        popen.wait(timeout=KILL_LIMIT)


def _here() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return ""
