"""What runs in the process that workers are forked from: it imports what they share, then forks when asked."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from attnsuite.model.uncollected import importing, look_through_once
from attnsuite.worker.sandbox.guard import read, surround
from attnsuite.worker.sandbox.life import die_with_the_parent

MARK = "ATTNSUITE_WORKER"
"""An environment variable with another value in each worker: what a worker started inherits it, and is found by it."""
MARK_LENGTH = 32
"""Characters of a mark, the digits of a UUID. In a forked worker it is written over the one of its server in place."""
LONGEST_MESSAGE = 1 << 16
"""Bytes of a question to a server, or of its answer, at most."""
WORKER = "attnsuite.worker.__main__"
"""The module that every worker runs."""
PASSED_ON = ("PYTEST_CURRENT_TEST", "ATTNSUITE_CACHE")
"""Variables that change from test to test and that no library reads as it starts. They are sent with each fork, so that
not every test needs a server of its own."""


def main(descriptor: int, life: int, modules: Sequence[str]) -> None:
    """Serve the parent on this file descriptor until it is gone. `life` is a pipe that the parent holds open."""
    die_with_the_parent(life)
    control = socket.socket(fileno=descriptor)
    control.set_inheritable(False)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored nobody can be waited for
    with importing():  # a fifth less time; and what is never looked at is never copied
        for module in modules:
            import_module(module)
    if modules[1:]:  # beside the worker a service: processes of these are timed
        look_through_once()
    while True:
        said, descriptors, _, _ = socket.recv_fds(control, LONGEST_MESSAGE, 3, socket.MSG_CMSG_CLOEXEC)
        if not said:
            return
        message = json.loads(said)
        if "branch" in message:
            if _branched(descriptors):
                control.close()
                os.close(life)
                descriptor, life = descriptors
                control = socket.socket(fileno=descriptor)
        elif "imports" in message:
            with importing():
                for module in message["imports"]:
                    import_module(module)
        elif "mark" in message:
            if os.fork() == 0:
                os.close(life)
                _work(control, message, descriptors)
            for each in descriptors:
                os.close(each)
        else:
            answer = os.waitstatus_to_exitcode(os.waitpid(message["reap"], 0)[1]) if "reap" in message else 0
            control.send(json.dumps(answer).encode())


def _branched(descriptors: Sequence[int]) -> bool:
    """Fork another server, which has nothing to do with this one. Whether this is that one: it serves who has the other
    end of these, and ends with him.
    """
    if child := os.fork():
        os.waitpid(child, 0)
        for each in descriptors:
            os.close(each)
        return False
    if os.fork():
        os._exit(0)  # so that nobody has to wait for the other
    os.setsid()
    die_with_the_parent(descriptors[1])
    return True


def _work(control: socket.socket, message: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """In the forked process: answer the parent with our number, then run as a worker until the end."""
    try:
        with control:
            answer = None
            try:
                channel, output, life = descriptors
                _become_a_worker(output, message)
                answer = os.getpid()
            finally:
                control.send(json.dumps(answer).encode())
        stand = _walled(message["walls"], life) if message["walls"] else ()
        import_module(WORKER).main(channel, life, stand)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _walled(given: dict[str, Any], life: int) -> tuple[str, ...]:
    """Leave a guard behind, and go on behind walls. The guard is in the group that dies with the parent, too."""
    die_with_the_parent(life)
    return surround(*read(given), life)


def _become_a_worker(output: int, message: Mapping[str, Any]) -> None:
    """Give the forked process what one started by itself has: its own session, mark and random numbers."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)
    _mark(message["mark"])
    for name in PASSED_ON:
        os.environ.pop(name, None)
    os.environ.update(message["passed_on"])
    with suppress(OSError):  # it is gone, or not ours to enter
        os.chdir(message["at"])
    if os.sched_getaffinity(0) != set(message["cores"]):
        os.sched_setaffinity(0, message["cores"])
    for module in ("torch", "numpy.random"):  # Python's own does so by itself
        if module in sys.modules:
            sys.modules[module].seed()


def _mark(mark: str) -> None:
    """Write the mark over the server's, where the system reads it: `/proc/<pid>/environ` shows the bytes with which a
    process began, and neither `os.environ` nor `setenv` changes those. `MARK_LENGTH` is the room that there is.
    """
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    ctypes.memmove(getenv(MARK.encode()), mark.encode(), MARK_LENGTH)
    os.environ[MARK] = mark
