"""A process that has imported all that workers share, and forks into them: an import of PyTorch takes most of a start.

What is read when a process starts (the thread counts and limits of libraries, of the allocator) is the same in all that
one server forks; so there is a server for each environment.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Collection, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

MARK = "ATTNSUITE_WORKER"
"""The environment variable by which whatever a worker started is known."""
SHARED = ("suite.worker.__main__", "suite.measure.serving")
"""What every worker imports before its implementation."""
START_LIMIT = 60.0
"""Seconds for an answer of a server, the first of which waits for its imports."""
REAP_LIMIT = 5.0
"""Seconds to wait for others that ask."""
MOST = 4
"""So many servers are kept, the latest that were asked."""
MESSAGE = 1 << 20
PASSING = "PYTEST_CURRENT_TEST"
"""A variable that pytest changes all the time and that no library reads as it starts."""


class Forked:
    """A worker that a server has forked, from outside: as `Fresh` is one that was started by itself."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self.pid = pid
        self._server = server
        self._ends = os.pidfd_open(pid)
        self._status: int | None = None
        self._reaped = False

    def exited(self) -> bool:
        """Whether the process has ended, leaving it unreaped: its number stays its own until `reap`."""
        return self._reaped or bool(select.select([self._ends], [], [], 0)[0])

    @property
    def reaped(self) -> bool:
        return self._reaped

    def reap(self, limit: float) -> int | None:
        """The status that it ended with, negative for a signal; None where that cannot be learned in these seconds."""
        if not self._reaped and select.select([self._ends], [], [], limit)[0]:
            self._reaped = True
            os.close(self._ends)
            self._status = self._server.reap(self.pid)
        return self._status


class ForkServer:
    """The parent's end of one server, which ends with it. It may be asked from several threads."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        life, held = os.pipe()
        with theirs:
            try:
                popen = subprocess.Popen(
                    [sys.executable, "-P", "-m", "suite.worker.forkserver", str(theirs.fileno()), str(life)],
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
        self._control, self._asking = control, threading.Lock()
        self.end = weakref.finalize(self, _end, popen, control, held)

    def fork(self, descriptors: Collection[int], mark: str, cores: Collection[int]) -> Forked | None:
        """A worker with a channel, an output and a life; None where the server has failed."""
        asked: dict[str, Any] = {"mark": mark, "cores": sorted(cores or os.sched_getaffinity(0))}
        asked |= {"at": _here(), PASSING: os.environ.get(PASSING)}
        with self._asking:
            answer = self._asked(asked, descriptors)
        return None if answer is None else Forked(self, answer)

    def reap(self, pid: int) -> int | None:
        """The status of a worker that has ended; None where that cannot be learned."""
        if not self._asking.acquire(
            timeout=REAP_LIMIT
        ):  # one that was forgotten, collected in the middle of a question
            return None
        try:
            return self._asked({"reap": pid})
        finally:
            self._asking.release()

    def _asked(self, message: Mapping[str, Any], descriptors: Collection[int] = ()) -> int | None:
        if not self.end.alive:
            return None
        try:
            socket.send_fds(self._control, [json.dumps(message).encode()], list(descriptors))
            answer = json.loads(self._control.recv(MESSAGE) or b"null")
        except (OSError, ValueError):
            answer = None
        except BaseException:  # Ctrl-C: what comes later would answer another question
            self.end()
            raise
        if not isinstance(answer, int):
            self.end()
            return None
        return answer


def server_of(environment: Mapping[str, str]) -> ForkServer | None:
    """The server of workers with this environment, which may still be starting; None where the system has none."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return None
    key = os.getpid(), frozenset((name, value) for name, value in environment.items() if name != PASSING)
    with _starting:
        found = _servers.pop(key, None)
        if found is None or not found.end.alive:
            found = ForkServer(environment)
        _servers[key] = found
        for oldest in list(_servers)[:-MOST]:
            del _servers[oldest]  # it ends with the last of its workers
    return found


_servers: dict[tuple[int, frozenset[tuple[str, str]]], ForkServer] = {}
_starting = threading.Lock()


def _end(popen: subprocess.Popen[bytes], control: socket.socket, held: int) -> None:
    control.close()
    os.close(held)  # which kills it
    with suppress(subprocess.TimeoutExpired):
        popen.wait(timeout=10)


def _here() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return ""


def main(descriptor: int, life: int) -> None:
    """Serve the parent on this file descriptor until it is gone. `life` is a pipe that the parent holds open."""
    worker = import_module(SHARED[0])
    worker.die_with_the_parent(life)
    control = socket.socket(fileno=descriptor)
    control.set_inheritable(False)
    for module in SHARED:
        import_module(module)
    gc.collect()
    gc.freeze()  # what is never looked at is never copied
    while True:
        said, descriptors, _, _ = socket.recv_fds(control, MESSAGE, 3, socket.MSG_CMSG_CLOEXEC)
        if not said:
            return
        message = json.loads(said)
        if "reap" in message:
            control.send(json.dumps(os.waitstatus_to_exitcode(os.waitpid(message["reap"], 0)[1])).encode())
            continue
        if os.fork() == 0:
            try:
                os.close(life)
                channel, output, held = descriptors
                _settle_in(output, message)
                with control:
                    control.send(json.dumps(os.getpid()).encode())
                worker.main(channel, held)
            finally:
                os._exit(1)
        for each in descriptors:
            os.close(each)


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
    os.sched_setaffinity(0, message["cores"])
    import_module("numpy").random.seed()


def _mark(mark: str) -> None:
    """Write the mark where the system reads it too: it shows the environment that a process began with."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    ctypes.memmove(getenv(MARK.encode()), mark.encode(), len(mark))
    os.environ[MARK] = mark


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
