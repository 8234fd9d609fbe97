"""How a worker's process is started, by itself or by a server that forks, and how it is ended with all that is its."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from attnsuite.model.limits import KILL_LIMIT
from attnsuite.registry.loading import UNLESS_SET
from attnsuite.worker.forkserver import Forked, bound, server_of
from attnsuite.worker.sandbox import WALLS, Room, found_elsewhere, sweep, take_down
from attnsuite.worker.sandbox.descent import children, signal_all
from attnsuite.worker.sandbox.guard import written
from attnsuite.worker.sandbox.room import make_room
from attnsuite.worker.server import MARK, WORKER


class Fresh:
    """The parent's view of a worker that is an interpreter of its own. For one that was forked it is `Forked`."""

    def __init__(
        self,
        inherited: Sequence[int],
        mark: str,
        cores: Collection[int],
        environment: Mapping[str, str],
        walls: Mapping[str, Any] | None = None,
        python: str = "",
    ) -> None:
        channel, output, life = inherited
        ends = [str(channel), str(life)]
        guarded = ["attnsuite.worker.sandbox.guard", WORKER, *ends, json.dumps(walls)]
        with bound(cores):
            self._popen = subprocess.Popen(
                [python or sys.executable, "-P", "-m", *(guarded if walls else ["attnsuite.worker", *ends])],
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


SET_LATER = {"KMP_DUPLICATE_LIB_OK": "True"}
"""What threadpoolctl sets in the environment of whoever imports it. It is said from the start: a server that is begun
before would have another environment than the one asked for later, and import PyTorch for nobody."""


def wanted() -> list[str]:
    """The names of the walls that are put up around workers, where the machine has them: all."""
    return [each.name for each in WALLS]


def expect(
    environment: Mapping[str, str], cores: Collection[int] = (), service: str = "", also: Sequence[str] = ()
) -> None:
    """Begin to import what workers with this environment, service and number of cores share, in the background.

    The modules named by `also` come after that: what each worker would import by itself to answer its first question.
    """
    server = server_of(_environment(environment), cores, _modules(service))
    if server and also:
        server.expect(also)


def _modules(service: str) -> list[str]:
    """The modules that a service, `module:function`, needs; none where there is no service."""
    return [service.partition(":")[0]] if service else []


class Begun(NamedTuple):
    """A process that was started, and what of it is ours: its channel, its output, its life, and its folder."""

    started: Fresh | Forked
    channel: socket.socket
    output: int
    held: int
    mark: str = ""
    room: Room | None = None


def start(
    environment: Mapping[str, str],
    cores: Collection[int],
    service: str,
    fresh: bool,
    walled: bool,
    memory: int,
    python: str = "",
) -> Begun:
    """Start a worker's process, as `Process` says. What is begun is ended by `finish`."""
    mark, everything = uuid4().hex, _environment(environment)
    if walled:
        sweep()
    stand = [each for each in found_elsewhere() if each in wanted()] if walled else []
    room = make_room(everything, memory) if walled else None
    walls = None if room is None else written(room, stand)
    with ExitStack() as undo:
        if room:
            undo.callback(take_down, room)
        begun = None if fresh or python else _forked(mark, cores, everything, _modules(service), walls)
        begun = begun or _begun(lambda inherited: Fresh(inherited, mark, cores, everything, walls, python))
        if begun is None:
            raise RuntimeError("no process was started")
        undo.pop_all()
    return begun._replace(mark=mark, room=room)


def _forked(
    mark: str,
    cores: Collection[int],
    environment: Mapping[str, str],
    modules: Sequence[str],
    walls: Mapping[str, Any] | None,
) -> Begun | None:
    """A worker that a server has forked, or, where that server has ended, another server; None where none can."""
    for _ in range(2):
        server = server_of(environment, cores, modules)
        if server is None:
            return None
        begun = _begun(partial(server.fork, mark=mark, cores=cores, walls=walls))
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
    return Begun(started, channel, output, held) if started else None


def signal_group(started: Fresh | Forked, number: int) -> None:
    """Send a signal to the process and its group."""
    if not started.reaped:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(started.pid, number)


def finish(begun: Begun) -> None:
    """End the process and all that is its, and let go of what is ours."""
    started = begun.started
    if begun.room is not None:
        _end_guarded(started)
    signal_group(started, signal.SIGKILL)
    for process in _marked(begun.mark):
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)
    begun.channel.close()
    os.close(begun.output)
    os.close(begun.held)
    started.reap(KILL_LIMIT)
    if begun.room is not None:
        take_down(begun.room)


def _end_guarded(started: Fresh | Forked) -> None:
    """End what a guard has started, and wait until it has ended all that descends from that, and then itself."""
    if not started.exited():
        signal_group(started, signal.SIGCONT)
        signal_all(iter(children(started.pid)), signal.SIGKILL)
        until = time.monotonic() + KILL_LIMIT
        while not started.exited() and time.monotonic() < until:
            time.sleep(0.001)


def _marked(mark: str) -> Iterator[int]:
    """The processes that inherited the mark, those that left the session included (Linux)."""
    inherited = f"{MARK}={mark}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is not ours
            if inherited in (process / "environ").read_bytes().split(b"\0"):
                yield int(process.name)


def _environment(added: Mapping[str, str]) -> dict[str, str]:
    environment = {**UNLESS_SET, **SET_LATER, **os.environ, **added}
    root = Path(__file__).resolve().parent.parent.parent
    if root.name not in ("site-packages", "dist-packages"):  # a checkout, which no other interpreter knows of
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(root), environment.get("PYTHONPATH"))))
    return environment
