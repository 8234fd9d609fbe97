"""Both ends of the fork server: a process that has imported PyTorch and forks every worker on a CPU.

The import takes most of the time of a start. Libraries read the environment and count the cores at import, so each
environment and number of cores has a server. A forked process uses its parent's servers.

A worker inherits three descriptors. The channel is a socket for messages. The output is a pipe for stdout and stderr.
The life pipe carries nothing: when the parent exits, the worker reads EOF and is killed.
In a sandbox the forked process stays behind as the supervisor, which starts the worker and passes its exit status on.
A service is code of the suite that runs in workers, `module:function`, such as the benchmark's timer.
"""

from __future__ import annotations

import ctypes
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
from typing import NoReturn

from msgspec import Struct, msgpack

from attnsuite.model.garbage_collection import collect_once, gc_paused_for_imports
from attnsuite.model.limits import FORK_LIMIT, KILL_LIMIT, TIME_LIMIT
from attnsuite.registry.loading import UNLESS_SET
from attnsuite.worker.sandbox import supervisor
from attnsuite.worker.sandbox.mechanism import Space
from attnsuite.worker.sandbox.processes import die_with_the_parent

MAX_SERVERS = 8
"""Running servers at most, the last used ones: each holds an interpreter with PyTorch. A benchmark on one thread and
on all cores uses five: one for the contract, and two for each number of threads if two processes are timed."""
SET_LATER = {"KMP_DUPLICATE_LIB_OK": "True"}
"""The variable that importing threadpoolctl sets. It is set from the start: else a server that starts earlier has
another environment than later workers, and its import of PyTorch is wasted."""
MARK, MARK_LENGTH = "ATTNSUITE_WORKER", 32
"""An environment variable whose value identifies a worker and all that it starts; and its length, that of a UUID. A
forked worker overwrites its server's value in place."""
MAX_MESSAGE = 1 << 16
"""Bytes of a message to a server at most."""
PASSED_ON = ("PYTEST_CURRENT_TEST", "ATTNSUITE_CACHE")
"""Variables that change from test to test and that no library reads at import. They are sent with each fork, so that
tests share a server."""
_MAIN = "import sys; from attnsuite.worker.forkserver import main; main(*map(int, sys.argv[1:3]))"


class Import(Struct, tag=True):
    """Import these modules. With `then_collect`, run a garbage collection afterwards."""

    modules: list[str]
    then_collect: bool = False


class Fork(Struct, tag=True):
    """Fork a worker. Its descriptors are sent with the message; the reply is its PID, or that of its supervisor."""

    mark: str
    cores: list[int]
    folder: str
    environment: dict[str, str]
    sandbox: Space | None


class Reap(Struct, tag=True):
    """Report the exit status of a worker that has ended, negative for a signal."""

    pid: int


Message = Import | Fork | Reap
"""Sent with a socket for the reply, so that several processes can use one server."""


class ForkedProcess:
    """The parent's view of a worker that a server has forked; compare `SpawnedProcess`."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self.pid = pid
        self._server = server
        self._pidfd = os.pidfd_open(pid)
        self._close = weakref.finalize(self, os.close, self._pidfd)
        self._status: int | None = None

    @property
    def reaped(self) -> bool:
        """Whether another process may have its PID: it was reaped here, or by the system after its server ended."""
        return not self._close.alive or (not self._server.alive and _is_ready(self._pidfd, select.POLLIN))

    def exited(self) -> bool:
        """Whether the process has ended."""
        return not self._close.alive or _is_ready(self._pidfd, select.POLLIN)

    def reap(self, limit: float) -> int | None:
        """Its exit status, negative for a signal; None if that is unknown after `limit` seconds."""
        if self._close.alive and _is_ready(self._pidfd, select.POLLIN, limit):
            self._close()
            self._status = self._server.request(Reap(self.pid))
        return self._status


class ForkServer:
    """The parent's end of one server, which ends with it. Threads and forked processes may use it at the same time."""

    def __init__(self, environment: Mapping[str, str], cores: Collection[int] = (), service: str = "") -> None:
        """Start a server with this environment, bound to these cores, and have it import the module of a service."""
        self._control, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        life, life_end = os.pipe()
        self._imported: set[str] = set()
        self._ready = False
        try:
            with child_end, bound(cores):
                popen = subprocess.Popen(
                    [sys.executable, "-P", "-c", _MAIN, str(child_end.fileno()), str(life)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[child_end.fileno(), life],
                    env={**environment, MARK: "0" * MARK_LENGTH},  # `_mark` writes over it
                    start_new_session=True,
                )
        except BaseException:
            self._control.close()
            os.close(life_end)
            raise
        finally:
            os.close(life)
        self.pid = popen.pid
        self.close = weakref.finalize(self, _close, popen, os.getpid(), self._control, life_end)
        self.prewarm(
            [supervisor.WORKER, *([service] if service else [])], then_collect=bool(service)
        )  # a service may be timed

    @property
    def alive(self) -> bool:
        """Whether the server runs."""
        return self.close.alive and not _is_ready(self._control.fileno(), 0)  # a hang-up is always reported

    def prewarm(self, modules: Collection[str], then_collect: bool = False) -> None:
        """Have it import these modules in the background."""
        if new := [module for module in modules if module not in self._imported]:
            self._imported |= set(new)
            self._send(Import(new, then_collect)).close()

    def request(self, message: Message, descriptors: Sequence[int] = ()) -> int | None:
        """The reply to a message; None if the server has failed, which ends it."""
        reply = b""
        with self._send(message, descriptors) as replies, suppress(OSError):
            replies.settimeout(FORK_LIMIT if self._ready else TIME_LIMIT)  # first it imports PyTorch
            reply = replies.recv(MAX_MESSAGE)
        if not reply:
            self.close()
            return None
        self._ready = True
        return msgpack.decode(reply, type=int | None)

    def fork(
        self, descriptors: Sequence[int], mark: str, cores: Collection[int], sandbox: Space | None = None
    ) -> ForkedProcess | None:
        """The worker with these descriptors, or its supervisor in a sandbox; None if the server has failed."""
        environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        cores = sorted(cores or os.sched_getaffinity(0))
        pid = self.request(Fork(mark, cores, _working_directory(), environment, sandbox), descriptors)
        if pid is not None:
            with suppress(OSError):  # both have ended since
                return ForkedProcess(self, pid)
        return None

    def _send(self, message: Message, descriptors: Sequence[int] = ()) -> socket.socket:
        """The socket for the reply; it stays empty if the server has ended."""
        replies, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with child_end, suppress(OSError):
            if self.close.alive:
                socket.send_fds(self._control, [msgpack.encode(message)], [child_end.fileno(), *descriptors])
        return replies


Key = tuple[int, frozenset[tuple[str, str]], str]
"""Number of cores, environment, and the module of a service or an empty name."""
_servers: dict[Key, ForkServer] = {}
_starting = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_starting.acquire, after_in_parent=_starting.release, after_in_child=_starting.release)


def server_of(added: Mapping[str, str], cores: Collection[int] = (), service: str = "") -> ForkServer | None:
    """The server for workers with these additions to the environment, this service, and this number of cores.

    It may still be starting. None if the system does not support such forks.
    """
    if not _can_wait():
        return None
    environment = environment_of(added)
    variables = frozenset((name, value) for name, value in environment.items() if name not in PASSED_ON)
    wanted = len(cores), variables, service.partition(":")[0]
    with _starting:
        key = next((key for key in _servers if key[:2] == wanted[:2] and wanted[2] in ("", key[2])), wanted)
        server = _servers.pop(key, None)
        if server is None or not server.alive:
            server = ForkServer(environment, cores, key[2])
        _servers[key] = server
        for oldest in list(_servers)[:-MAX_SERVERS]:
            del _servers[oldest]  # it ends with the last of its workers
    return server


def prewarm(added: Mapping[str, str], cores: Collection[int] = (), service: str = "", also: Sequence[str] = ()) -> None:
    """Begin, in the background, the imports that workers with this environment, service and number of cores share.

    Then come the modules `also`, which each worker would import for its first request.
    """
    if server := server_of(added, cores, service):
        server.prewarm(also)


def environment_of(added: Mapping[str, str]) -> dict[str, str]:
    """The environment of a worker: this process's with these variables, and with a path to the suite."""
    environment = {**UNLESS_SET, **SET_LATER, **os.environ, **added}
    root = Path(__file__).resolve().parent.parent.parent
    if root.name not in ("site-packages", "dist-packages"):  # a checkout is not on the path of other interpreters
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(root), environment.get("PYTHONPATH"))))
    return environment


def await_servers() -> None:
    """Wait until all servers have finished their imports."""
    for server in list(_servers.values()):
        server.request(Import([]))


def forget_servers() -> None:
    """Start new servers for the next workers.

    Workers of one server have the same memory addresses, which differ from server to server.
    """
    with _starting:
        _servers.clear()  # each ends with the last of its workers


@contextmanager
def bound(cores: Collection[int]) -> Iterator[None]:
    """Bind this thread to the cores within the block. Processes that it starts inherit that before a library counts
    cores.
    """
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
    """Whether the system lets a process wait for one that is not its child."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return sys.platform == "linux"


def _is_ready(descriptor: int, event: int, limit: float = 0.0) -> bool:
    """Whether this event, or the closing of the other end, comes within `limit` seconds."""
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(limit * 1000))


def _close(popen: subprocess.Popen[bytes], owner: int, control: socket.socket, life_end: int) -> None:
    control.close()
    os.close(life_end)
    if os.getpid() != owner:  # only the process that started the server ends it
        return
    popen.kill()  # it may still be importing
    with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):  # a second Ctrl-C, while the first ends everything
        popen.wait(timeout=KILL_LIMIT)


def _working_directory() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return ""


def main(descriptor: int, life: int) -> None:
    """In the server: serve this file descriptor until it is closed. `life` is a pipe that the parent keeps open."""
    die_with_the_parent(life)
    control = socket.socket(fileno=descriptor)
    control.set_inheritable(False)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a process that ignores it cannot wait for children
    while True:
        content, descriptors, _, _ = socket.recv_fds(control, MAX_MESSAGE, 4, socket.MSG_CMSG_CLOEXEC)
        if not content:
            return
        with socket.socket(fileno=descriptors[0]) as replies:
            message = msgpack.decode(content, type=Message)
            if isinstance(message, Fork):
                if os.fork() == 0:
                    control.close()
                    os.close(life)
                    _work(replies, message, descriptors[1:])
                for descriptor in descriptors[1:]:
                    os.close(descriptor)
                continue  # the worker replies
            if isinstance(message, Import):
                _import(message)
            reply = os.waitstatus_to_exitcode(os.waitpid(message.pid, 0)[1]) if isinstance(message, Reap) else 0
            with suppress(OSError):  # the parent does not wait for it
                replies.send(msgpack.encode(reply))


def _import(message: Import) -> None:
    with gc_paused_for_imports():  # saves a fifth of the time, and unvisited objects are never copied
        for module in message.modules:
            import_module(module)
    if message.then_collect:
        collect_once()


def _work(replies: socket.socket, message: Fork, descriptors: Sequence[int]) -> NoReturn:
    """In the forked process: reply with its PID, then run as a worker until the end."""
    try:
        with replies:
            pid = None
            try:
                channel, output, life = descriptors
                _become_a_worker(output, message)
                pid = os.getpid()
            finally:
                replies.send(msgpack.encode(pid))
        supervisor.main(channel, life, message.sandbox)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _become_a_worker(output: int, message: Fork) -> None:
    """Give the forked process a session, a mark and random seeds of its own."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)
    _mark(message.mark)
    for name in PASSED_ON:
        os.environ.pop(name, None)
    os.environ.update(message.environment)
    with suppress(OSError):  # it is gone, or not accessible
        os.chdir(message.folder)
    if os.sched_getaffinity(0) != set(message.cores):
        os.sched_setaffinity(0, message.cores)
    for module in ("torch", "numpy.random"):  # Python's own generator is reseeded after a fork
        if module in sys.modules:
            sys.modules[module].seed()


def _mark(mark: str) -> None:
    """Overwrite the server's mark in the memory that `/proc/<pid>/environ` shows, which holds `MARK_LENGTH` characters.

    Neither `os.environ` nor `setenv` changes that memory.
    """
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    ctypes.memmove(getenv(MARK.encode()), mark.encode(), MARK_LENGTH)
    os.environ[MARK] = mark
